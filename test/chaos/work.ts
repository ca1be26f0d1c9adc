/**
 * The work of a chaos turn, written into its instruction: `[plan ask,ask|charge:0|slow:900]` is three steps, the first with two calls.
 * The model reads the plan from the conversation and says the next step, so the same conversation always gets the same answer.
 */
import { type ChatMessage, type ChatRequest, textOf, toolNames } from '../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { ASK_EXPERT, DELEGATE_ASYNC, SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { HOSTILE_KINDS, type HostileKind, hostileAnswer, hostileKindOf, hostileStep, ODD_USAGES } from './hostile.ts';
import { livingAnswer } from './living-model.ts';
import type { Random } from './random.ts';

/**
 * Of a profile. `small`: with a window that long turns do not fit; `wide`: with one that endless text fits several times; `short`: the runs of its turns continue as new all the time; `uncounted`:
 * its model counts no tokens; `hasty`: its turns are ended for no progress after less than a minute; `single`: without bursts.
 */
export interface Traits {
  readonly small?: boolean;
  readonly wide?: boolean;
  readonly short?: boolean;
  readonly uncounted?: boolean;
  readonly hasty?: boolean;
  readonly single?: boolean;
}

const TRAITS = ['small', 'wide', 'short', 'uncounted', 'hasty', 'single'] as const;

/** Those that go together. */
export const ALL_TRAITS: readonly Traits[] = TRAITS.reduce<Traits[]>(
  (all, trait) => all.flatMap((one) => [one, { ...one, [trait]: true }]),
  [{}],
).filter(({ small, wide, uncounted, hasty }) => !(small && wide) && !(uncounted && hasty));

export const profileNamed = (traits: Traits): string => ['chaos', ...TRAITS.filter((trait) => traits[trait])].join('-');

export const UNCOUNTED_MODEL = 'uncounted';
export const isUncounted = (profile: string): boolean => profile.split('-').includes('uncounted');

/** Of the agents that are made by delegation. */
export const delegatedProfile = (tool: string): string => profileNamed({ short: tool === ASK_EXPERT });

/** Longer than a run may take to drain: an answer that is not told leaves its asker open at the end. */
const EXPERT_S = 3_600;

/** `expert` and `give` are the built-ins that delegate; their number picks what the other agent does. */
export type ToolName =
  | 'note'
  | 'charge'
  | 'slow'
  | 'slow_safe'
  | 'fail'
  | 'finish'
  | 'ask'
  | 'ask_nobody'
  | 'hold'
  | 'gated'
  | 'bulk'
  | 'expert'
  | 'give';

type Kind =
  | 'plain'
  | 'chain'
  | 'parallel'
  | 'ask'
  | 'ask_many'
  | 'nobody'
  | 'approval'
  | 'long'
  | 'mixed'
  | 'fail'
  | 'fields'
  | 'finish'
  | 'expert'
  | 'experts'
  | 'give';

const KINDS: Readonly<Record<Kind, number>> = {
  plain: 15,
  chain: 25,
  parallel: 15,
  ask: 12,
  ask_many: 8,
  nobody: 6,
  approval: 10,
  long: 3,
  mixed: 5,
  fail: 5,
  fields: 6,
  finish: 3,
  expert: 6,
  experts: 3,
  give: 3,
};

/** What a delegated turn does; the last one asks an expert in its turn. */
const DELEGATED = ['', 'note:0', 'ask:0', 'charge:0|slow:700', 'fail:0', 'expert:1'] as const;

const QUICK: readonly ToolName[] = ['note', 'charge', 'slow', 'slow_safe'];

const PLAN = /\[plan ([\w:,|]*)\]/;

/** An answer that was cut short is asked for so often in all; the plan says the same each time, whatever is still in view of it. */
const ENDLESS_PARTS = 4;

const RESULT_FIELDS = { fields: [{ name: 'answer' }, { name: 'count' }] };

export type ChaosRequest = EnqueueInput & { readonly instruction: string };

/** A request of a random kind; `label` makes its text unique. */
export function requestOf(random: Random, label: string, traits: Traits): ChaosRequest {
  const kind = random.weighted(KINDS);
  const instruction = `[plan ${planOf(kind, random)}] ${label}`;
  const priority = random.weighted({ normal: 90, now: 5, background: 5 });
  const profile = profileNamed({ ...traits, small: kind === 'long' });
  return { instruction, profile, priority, ...(kind === 'fields' ? { resultFields: RESULT_FIELDS } : {}) };
}

/** One with a hostile answer, of a random kind. */
export function hostileRequestOf(random: Random, label: string, traits: Traits): ChaosRequest {
  const kind = random.pick(HOSTILE_KINDS) ?? 'numbers';
  const hostile = hostileStep(kind, random.int(0, ODD_USAGES.length - 1));
  const before = random.chance(0.5) ? ['note:0'] : [];
  const isText = kind === 'endless' || kind === 'overlong';
  const plan = isText ? Array<string>(ENDLESS_PARTS).fill(hostile) : [...before, hostile, 'note:0'];
  const profile = profileNamed({ ...traits, wide: kind === 'endless' });
  return { instruction: `[plan ${plan.join('|')}] ${label}`, profile };
}

/** The hostile step of a request, and its place in the plan; undefined where there is none. */
export function hostilePart(instruction: string): { readonly kind: HostileKind; readonly step: number } | undefined {
  const steps = PLAN.exec(instruction)?.[1]?.split('|') ?? [];
  const step = steps.findIndex((one) => hostileKindOf(one) !== undefined);
  const kind = hostileKindOf(steps[step] ?? '');
  return kind && { kind, step };
}

function planOf(kind: Kind, random: Random): string {
  const some = (count: number) => Array.from({ length: count }, () => call(random.pick(QUICK) ?? 'note', random));
  switch (kind) {
    case 'plain':
      return '';
    case 'chain':
      return some(random.int(1, 4)).join('|');
    case 'parallel':
      return some(random.int(2, 4)).join(',');
    case 'ask':
      return 'ask:0';
    case 'ask_many':
      return Array.from({ length: random.int(2, 4) }, () => 'ask:0').join(',');
    case 'nobody':
      return 'ask_nobody:0|note:0';
    case 'approval':
      return `gated:0,${random.pick(['gated:0', 'ask:0', 'note:0'])}|gated:0`;
    case 'long':
      return Array.from({ length: random.int(20, 40) }, () => 'bulk:0').join('|');
    case 'mixed':
      return `ask_nobody:0,ask:0,${some(1)[0]}`;
    case 'fail':
      return `fail:0|${some(1)[0]}`;
    case 'fields':
      return some(1).join('');
    case 'finish':
      return `${some(1)[0]}|finish:0`;
    case 'expert':
      return `expert:${random.int(0, DELEGATED.length - 1)}|note:0`;
    case 'experts':
      return `expert:${random.int(0, DELEGATED.length - 1)},expert:2,${some(1)[0]}`;
    case 'give':
      return `give:${random.int(0, DELEGATED.length - 1)}`;
  }
}

const call = (tool: ToolName, random: Random): string =>
  `${tool}:${tool.startsWith('slow') ? random.int(200, 2_000) : 0}`;

export function answerOf(request: ChatRequest): ModelAnswer {
  const answer = countedAnswerOf(request);
  return request.model === UNCOUNTED_MODEL && answer.kind === 'message' ? { ...answer, usage: null } : answer;
}

/** Steers and their turns carry no plan: what is open of the last one goes on, and then the turn ends. */
function countedAnswerOf(request: ChatRequest): ModelAnswer {
  const { messages } = request;
  const living = livingAnswer(messages);
  if (living) return living;
  if (messages.some((message) => textOf(message).startsWith('Shorten this')))
    return { kind: 'message', content: 'bulk.' };
  const start = messages.findLastIndex((message) => message.role === 'user' && PLAN.test(textOf(message)));
  const planned = messages[start];
  const [, plan = ''] = PLAN.exec(planned ? textOf(planned) : '') ?? [];
  const steps = plan === '' ? [] : plan.split('|');
  const position = positionOf(messages.slice(start + 1));
  const delayMs = 20 + ((messages.length * 37) % 150);
  const step = steps[position];
  const hostile = hostileKindOf(step ?? '');
  if (hostile) return hostileAnswer(hostile, Number(step?.split(':')[1]), position);
  if (step !== undefined)
    return {
      kind: 'message',
      toolCalls: step.split(',').map((text, index) => proposed(text, index, position)),
      delayMs,
    };
  if (!toolNames(request).has(SUBMIT_RESULT))
    return { kind: 'message', content: `Done: ${plan || 'nothing'}.`, delayMs };
  const fields = [
    { name: 'answer', value: 'done' },
    { name: 'count', value: position },
  ];
  return { kind: 'message', toolCalls: [{ name: SUBMIT_RESULT, arguments: { fields } }], delayMs };
}

/** Each call names its step: a summary takes older ones out of view. */
function positionOf(messages: readonly ChatMessage[]): number {
  const said = messages.filter((message) => message.role === 'assistant');
  const steps = said.flatMap(({ tool_calls: calls = [] }) =>
    calls.map((call) => Number(/"step":(\d+)/.exec(call.function.arguments)?.[1] ?? -1) + 1),
  );
  return Math.max(said.length, ...steps);
}

function proposed(text: string, index: number, step: number): { name: string; arguments: object } {
  const [name = '', ms = '0'] = text.split(':');
  const task = `[plan ${DELEGATED[Number(ms)] ?? ''}] Delegated, call ${index}.`;
  const policy = { on_parent_end: Number(ms) % 2 === 0 ? 'stop' : 'continue' };
  if (name === 'expert') {
    const profile = delegatedProfile(ASK_EXPERT);
    return { name: ASK_EXPERT, arguments: { profile, question: task, timeout_seconds: EXPERT_S, ...policy } };
  }
  if (name === 'give') {
    const target = { target_strategy: 'new', target_ref: delegatedProfile(DELEGATE_ASYNC) };
    return { name: DELEGATE_ASYNC, arguments: { ...target, instruction: task, ...policy } };
  }
  return { name, arguments: { index, step, ms: Number(ms) } };
}
