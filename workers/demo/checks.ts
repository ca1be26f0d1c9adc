/** What the demo claims about its turn, checked against the folder, the tools' own log and the event log. */

import { z } from 'zod';
import { counted } from '../../client/cli/format.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { Deliverable } from '../../workflows/protocol/turn.ts';
import type { Folder } from './folder.ts';
import type { Effect } from './jobs.ts';
import type { CrashFacts } from './workers.ts';

/** One claim and whether it holds. */
export interface Check {
  readonly name: 'sources' | 'starts' | 'task_event' | 'lease' | 'crash';
  readonly ok: boolean;
  /** The claim with its figures, written for people. */
  readonly what: string;
}

/** A quote that the agent named as a source of its answer. */
export interface CheckedSource {
  readonly path: string;
  readonly line: number;
  readonly quote: string;
  /** Why the source is wrong; undefined when the file is there and holds the quote literally. */
  readonly problem?: string;
}

/** What the agent must deliver as its sources. */
const sourcesSchema = z.array(z.object({ path: z.string(), line: z.number(), quote: z.string().min(1) }));

/** What the agent delivered, and what the checks of it say. */
export interface Answer {
  /** The text of the answer; undefined when the deliverable has none. */
  readonly answer: string | undefined;
  readonly sources: readonly CheckedSource[];
  readonly checks: readonly Check[];
}

/** Reads answer and sources out of a deliverable, and looks each source up in the folder. */
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

/** The value, or what its JSON text stands for: some models hand a list over as text. */
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

/** The text without carriage returns, as `read_file` gives its lines to the model. */
const sameBreaks = (text: string): string => text.replaceAll('\r\n', '\n');

/** What is known of a turn that has ended. */
export interface RunFacts {
  readonly agentTurnId: string;
  /** All events of the turn's agent. */
  readonly events: readonly AgentEvent[];
  /** The starts of tools, as the tools themselves logged them. */
  readonly effects: readonly Effect[];
  /** Which worker was killed, and when; undefined when none was to be killed. */
  readonly crash: CrashFacts | undefined;
}

/** Checks that calls ran once, that there is one task event and one lease, and that a killed worker's turn went on. */
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

/**
 * Checks that no call ran twice. A call whose result was not stored yet may be run again after a crash, which its tool allows; one whose
 * result was stored never is.
 */
function startsCheck(effects: readonly Effect[], settledAtKill: ReadonlySet<string> | undefined): Check {
  const starts = new Map<string, number>();
  for (const { callId } of effects) starts.set(callId, (starts.get(callId) ?? 0) + 1);
  const again = [...starts].filter(([, count]) => count > 1).map(([callId]) => callId);
  const lines = `${counted(starts.size, 'call')}, ${counted(effects.length, 'line')} in the log of the tools`;
  if (again.length === 0) return { name: 'starts', ok: true, what: `each tool call ran once: ${lines}` };
  const allowed = settledAtKill !== undefined && !again.some((callId) => settledAtKill.has(callId));
  const what = allowed ? `${again.length} had no stored result when the worker died and ran again` : 'a call ran twice';
  return { name: 'starts', ok: allowed, what: `${what}: ${lines}` };
}

/** Checks that another worker went on after the kill: the one that was started for it, or one of `dev` on the same data. */
function takenOver(effects: readonly Effect[], { killed }: CrashFacts): Check {
  if (killed === undefined)
    return { name: 'crash', ok: false, what: 'a worker was killed: no tool stored a result, so none was' };
  const later = effects.filter((effect) => effect.pid !== killed);
  const workers = [...new Set(later.map((effect) => effect.pid))].join(', ');
  const what = `worker ${killed} was killed, ${workers || 'no other'} went on with ${counted(later.length, 'call')}`;
  return { name: 'crash', ok: later.length > 0, what };
}
