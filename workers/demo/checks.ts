/** What the demo claims about its turn, checked against the folder, the tools' own log and the event log. */
import { z } from 'zod';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { Deliverable } from '../../workflows/protocol/turn.ts';
import type { Folder } from './folder.ts';
import type { Effect } from './jobs.ts';
import type { CrashFacts } from './workers.ts';

export interface Check {
  readonly name: 'sources' | 'starts' | 'task_event' | 'lease' | 'crash';
  readonly ok: boolean;
  readonly what: string;
}

export interface CheckedSource {
  readonly path: string;
  readonly line: number;
  readonly quote: string;
  /** Undefined when the file is there and holds the quote literally. */
  readonly problem?: string;
}

const sourcesSchema = z.array(z.object({ path: z.string(), line: z.number(), quote: z.string().min(1) }));

export interface Answer {
  readonly answer: string | undefined;
  readonly sources: readonly CheckedSource[];
  readonly checks: readonly Check[];
}

export async function checkAnswer(deliverable: Deliverable | null, folder: Folder): Promise<Answer> {
  const field = (name: string) => deliverable?.fields?.find((candidate) => candidate.name === name)?.value;
  const answer = field('answer');
  const parsed = sourcesSchema.safeParse(fromText(field('sources')));
  if (typeof answer !== 'string' || !parsed.success) {
    const what = 'the deliverable has an answer and a list of sources';
    return {
      answer: typeof answer === 'string' ? answer : undefined,
      sources: [],
      checks: [{ name: 'sources', ok: false, what }],
    };
  }
  const sources = await Promise.all(parsed.data.map((source) => checkSource(source, folder)));
  const found = sources.filter((source) => source.problem === undefined).length;
  const what =
    sources.length === 0
      ? 'no sources are named, so none can be wrong'
      : `every source exists and holds its quote literally (${found} of ${sources.length})`;
  return { answer, sources, checks: [{ name: 'sources', ok: found === sources.length, what }] };
}

/** Some models hand a list over as its JSON text. */
function fromText(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

async function checkSource(source: z.infer<typeof sourcesSchema>[number], folder: Folder): Promise<CheckedSource> {
  const text = await folder.read(source.path).catch(() => undefined);
  if (text === undefined) return { ...source, problem: 'there is no such file in the folder' };
  return sameBreaks(text).includes(sameBreaks(source.quote))
    ? source
    : { ...source, problem: 'the file does not hold this quote' };
}

/** read_file gives lines without their carriage returns. */
const sameBreaks = (text: string): string => text.replaceAll('\r\n', '\n');

export interface RunFacts {
  readonly agentTurnId: string;
  /** All events of the agent. */
  readonly events: readonly AgentEvent[];
  readonly effects: readonly Effect[];
  /** Undefined when no worker was to be killed. */
  readonly crash: CrashFacts | undefined;
}

export function checkRun({ agentTurnId, events, effects, crash }: RunFacts): Check[] {
  const ofTurn = events.filter((event) => event.agentTurnId === agentTurnId);
  const tasks = ofTurn.filter((event) => event.type === 'task').length;
  const epochs = new Set(ofTurn.flatMap((event) => (event.type === 'state' ? [event.payload.turnEpoch] : [])));
  return [
    startsCheck(effects, crash?.settledAtKill),
    { name: 'task_event', ok: tasks === 1, what: `exactly one task event (${tasks})` },
    { name: 'lease', ok: epochs.size === 1, what: `one lease: epoch ${[...epochs].join(', ')} throughout` },
    ...(crash === undefined ? [] : [takenOver(effects, crash)]),
  ];
}

/** A call whose result was not stored yet is run again, which its tool allows; one whose result was stored never is. */
function startsCheck(effects: readonly Effect[], settledAtKill: ReadonlySet<string> | undefined): Check {
  const starts = new Map<string, number>();
  for (const { callId } of effects) starts.set(callId, (starts.get(callId) ?? 0) + 1);
  const again = [...starts].filter(([, count]) => count > 1).map(([callId]) => callId);
  const lines = `${starts.size} calls, ${effects.length} lines in the log of the tools`;
  if (again.length === 0) return { name: 'starts', ok: true, what: `each tool call ran once: ${lines}` };
  const allowed = settledAtKill !== undefined && !again.some((callId) => settledAtKill.has(callId));
  const what = allowed ? `${again.length} had no stored result when the worker died and ran again` : 'a call ran twice';
  return { name: 'starts', ok: allowed, what: `${what}: ${lines}` };
}

/** A worker of `dev` on the same data may have taken the turn over as well as the one that was started for it. */
function takenOver(effects: readonly Effect[], { killed }: CrashFacts): Check {
  if (killed === undefined)
    return { name: 'crash', ok: false, what: 'a worker was killed: no tool stored a result, so none was' };
  const later = effects.filter((effect) => effect.pid !== killed);
  const workers = [...new Set(later.map((effect) => effect.pid))].join(', ');
  const what = `worker ${killed} was killed, ${workers || 'no other'} went on with ${later.length} calls`;
  return { name: 'crash', ok: later.length > 0, what };
}
