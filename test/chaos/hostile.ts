/**
 * A model provider that keeps to nothing: one step of a turn is answered by a stream that no client should have to read. The next steps are
 * answered as always, so the turn and its agent must go on. A kind of answer is a word of the plan, as a tool is.
 */
import type { ModelAnswer } from '../../workers/model-server/completion.ts';

/**
 * `numbers`: calls numbered beyond all bounds, and negative. `one_number`: calls that all have one number. `no_numbers`: calls without one,
 * their arguments an object. `endless`: text that never ends, at an agent with a wide window. `overlong`: the same at one whose window it
 * does not fit. `parts`: text in parts. `halves`: halves of surrogate pairs. `deep`: arguments nested thousands of layers deep. `crowd`: more
 * calls than anybody may make. `usage`: counts of tokens that cannot be. `junk`: chunks that are none. `refused`: stopped by a filter, in the
 * middle of a call.
 */
export const HOSTILE_KINDS = [
  'numbers',
  'one_number',
  'no_numbers',
  'endless',
  'overlong',
  'parts',
  'halves',
  'deep',
  'crowd',
  'usage',
  'junk',
  'refused',
] as const;
export type HostileKind = (typeof HOSTILE_KINDS)[number];

/** What the calls of the hostile step must have come to, in their order; a kind without an entry makes none. */
export const HOSTILE_CALLS: Readonly<Partial<Record<HostileKind, readonly string[]>>> = {
  numbers: ['success', 'success', 'success'],
  one_number: ['success', 'success', 'success'],
  no_numbers: ['success', 'success'],
  halves: ['success'],
  deep: ['failed/invalid_arguments', 'success'],
  crowd: Array<string>(128).fill('failed/unknown_tool'),
  usage: ['success'],
  junk: ['success'],
};

const PREFIX = 'wire_';

/** The step of a plan; the number picks one of several answers of a kind. */
export const hostileStep = (kind: HostileKind, variant = 0): string => `${PREFIX}${kind}:${variant}`;

/** Undefined for a step that is none of these. */
export const hostileKindOf = (step: string): HostileKind | undefined =>
  HOSTILE_KINDS.find((kind) => step.startsWith(`${PREFIX}${kind}:`));

/** How long this provider goes on with an endless text when nobody hangs up. */
const ENDLESS_MS = 20_000;
const DEEP = 5_000;
const CROWD = 140;

const said = (content: unknown) => ({ choices: [{ delta: { content } }] });
const called = (...pieces: readonly unknown[]) => ({ choices: [{ delta: { tool_calls: pieces } }] });
const ended = (finish_reason: string) => ({ choices: [{ delta: {}, finish_reason }] });

interface Piece {
  readonly index?: unknown;
  readonly id: string;
  readonly args: unknown;
  readonly name?: string;
}

/** A tool of the run that only writes a note. */
const NOTE = 'note';

const piece = ({ index, id, args, name = NOTE }: Piece) => ({ index, id, function: { name, arguments: args } });

/** As all arguments of a run: each call names its step. */
const argsOf = (index: number, step: number, more = ''): string => `{"index":${index},"step":${step},"ms":0${more}}`;

/** Numbered by `numberOf`, each in two pieces, the second pieces in the other order. */
function inPieces(step: number, numberOf: (index: number) => unknown): readonly unknown[] {
  const calls = [0, 1, 2].map((index) => ({
    index: numberOf(index),
    id: `c${step}-${index}`,
    args: argsOf(index, step),
  }));
  const rest = calls.map(({ index, args }) => ({ index, function: { arguments: args.slice(5) } }));
  return [
    ...calls.map((call) => called(piece({ ...call, args: call.args.slice(0, 5) }))),
    ...rest.reverse().map((one) => called(one)),
  ];
}

/** A line of endless text. */
export const RULER = `${'-'.repeat(63)}\n`;

function* endless(): Generator<unknown> {
  const until = Date.now() + ENDLESS_MS;
  while (Date.now() < until) yield said(RULER.repeat(100));
}

export const ODD_USAGES: readonly unknown[] = [
  { prompt_tokens: -100, completion_tokens: -100 },
  { prompt_tokens: '12', completion_tokens: '12' },
  { prompt_tokens: 1e300, completion_tokens: 1 },
  { prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 11 } },
  { prompt_tokens: 0, completion_tokens: 0 },
  {},
  'many',
  [7],
];

const JUNK: readonly unknown[] = [null, 7, 'words', [], { choices: {} }, { choices: [{ delta: 'x' }] }];

/** The same for the same arguments. `step`: its place in the plan. */
export function hostileAnswer(kind: HostileKind, variant: number, step: number): ModelAnswer {
  const isText = kind === 'endless' || kind === 'overlong';
  return { kind: 'raw', chunks: isText ? endless() : chunksOf(kind, variant, step) };
}

function chunksOf(
  kind: Exclude<HostileKind, 'endless' | 'overlong'>,
  variant: number,
  step: number,
): readonly unknown[] {
  const one = (id: string, more = '') => called(piece({ index: 0, id, args: argsOf(0, step, more) }));
  switch (kind) {
    case 'numbers':
      return [...inPieces(step, (index) => [4_294_967_294, -7, 1e300][index]), ended('tool_calls')];
    case 'one_number': {
      const calls = [0, 1, 2].map((index) => piece({ index: 0, id: `c${step}-${index}`, args: argsOf(index, step) }));
      return [called(...calls), ended('stop')];
    }
    case 'no_numbers': {
      const calls = [0, 1].map((index) => piece({ id: `c${step}-${index}`, args: { index, step, ms: 0 } }));
      return [...calls.map((call) => called(call)), ended('tool_calls')];
    }
    case 'parts':
      return [
        said([{ type: 'text', text: 'in ' }, 'many ', { type: 'image' }, null, { text: 'parts' }]),
        ended('stop'),
      ];
    case 'halves':
      return [said('half \ud83d'), one(`c${step}\ud83d`, ',"half":"\\ud83d","other":"\udc00"'), ended('tool_calls')];
    case 'deep': {
      const deep = `{"n":${'['.repeat(DEEP)}${']'.repeat(DEEP)}}`;
      const calls = [deep, argsOf(1, step)].map((args, index) => piece({ index, id: `c${step}-${index}`, args }));
      return [called(...calls), ended('tool_calls')];
    }
    case 'crowd': {
      const args = argsOf(0, step);
      const calls = Array.from({ length: CROWD }, (_, index) =>
        piece({ index, id: `c${step}-${index}`, args, name: 'nothing' }),
      );
      return [...calls.map((call) => called(call)), ended('tool_calls')];
    }
    case 'usage':
      return [one(`c${step}`), ended('tool_calls'), { choices: [], usage: ODD_USAGES[variant % ODD_USAGES.length] }];
    case 'junk':
      return [...JUNK, one(`c${step}`), ...JUNK, ended('tool_calls')];
    case 'refused':
      return [
        said('I will not'),
        called(piece({ index: 0, id: `c${step}`, args: '{"index":' })),
        ended('content_filter'),
      ];
    default:
      return kind satisfies never;
  }
}
