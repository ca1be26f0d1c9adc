/** What follows when a turn begins of an agent that waits or has work: which of its waits are over (A4, A8). */
import {
  type ContinuationClass,
  type ContinuationResolution,
  endsWait,
} from '../../../workflows/agent-state/continuation.ts';
import type { Came } from '../../../workflows/contract/agent-work.ts';
import type { Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decoded } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { updateHead } from '../turns/head.ts';
import {
  type AgentFacts,
  agentFacts,
  isFromOutside,
  mayHaveOwnTurn,
  resolutionOf,
  resumeInterrupted,
} from './own-turns.ts';
import { endWaits } from './work.ts';

/** What a turn is begun by, and what its agent was left with before. */
export interface Beginning {
  readonly facts: AgentFacts;
  readonly came: readonly Came[];
}

/** Looks, before the lease, at what the agent was left with; null for an agent that never had anything of the kind. */
export async function beginningOf(tx: Tx, head: HeadRow, turn: TurnRow): Promise<Beginning | null> {
  const came = cameOf(turn);
  if (came.length === 0 && !mayHaveOwnTurn(head)) return null;
  return { facts: await agentFacts(tx, head), came };
}

/** What has made the turn; nothing where a request has, and where the request cannot be read. */
function cameOf({ request }: TurnRow): readonly Came[] {
  try {
    return decoded(request).came ?? [];
  } catch {
    return [];
  }
}

/** The classes, the one first that says most about a turn for which several things have come. */
const CLASSES: readonly ContinuationClass[] = [
  'resume_expected_wait',
  'resume_override',
  'local_continuation',
  'liveness_only',
];

/**
 * Writes down how the turn continues what was before, and ends the waits for what has come. The turn is leased, or has ended because it could
 * not start: what has come is its own either way.
 */
export async function resume(tx: Tx, head: HeadRow, turn: TurnRow, { facts, came }: Beginning): Promise<void> {
  // Whoever asks a turn of the agent, a person or another agent, is its operator.
  const asked = { kind: 'operator_input', source: turn.agent_turn_id } as const;
  const triggers: readonly Pick<Came, 'kind' | 'source' | 'due'>[] = came.length === 0 ? [asked] : came;
  const resolved = triggers.map((trigger) => ({ trigger, resolution: resolutionOf(facts, trigger) }));
  const [first] = CLASSES.flatMap((each) => resolved.filter(({ resolution }) => resolution.class === each));
  if (!first) return;
  const payload: ContinuationResolution & { readonly sources: readonly string[] } = {
    ...first.resolution,
    sources: triggers.map(({ source }) => source),
  };
  appendEvent(tx, turn, { type: 'continuation', payload });
  let waits = facts.work.waits;
  for (const { kind, source } of triggers) {
    const over = waits.filter((wait) => endsWait(wait, kind, source));
    await endWaits(tx, turn.agent_id, over, 'resolved', source);
    waits = waits.filter((wait) => !over.includes(wait));
  }
  if (!isFromOutside(triggers)) return;
  if (head.autonomous_turns > 0) await updateHead(tx, turn.agent_id, { autonomous_turns: 0 });
  if (head.has_work === 1) await resumeInterrupted(tx, turn.agent_id);
}
