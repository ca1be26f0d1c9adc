/** What an operator may do about what an agent is at (A3, A5). */
import type { ClosureDecision } from './closure.ts';
import type { AgentStatus } from './status.ts';

/** What a hint is derived from. */
export interface HintFacts {
  readonly agentId: string;
  readonly status: AgentStatus;
  /** Null while a turn is open or queued. */
  readonly closure: ClosureDecision | null;
  /** How much has come for it and is kept for its next turn. */
  readonly kept: number;
  /** Turns that it has made by itself since something came from outside. */
  readonly autonomousTurns: number;
  /** How many it may make; null while its profile is not known. */
  readonly maxAutonomousTurns: number | null;
}

/** A sentence with a command; null when nothing is to be done. */
export function operatorHint(facts: HintFacts): string | null {
  const { agentId, status, closure, kept, autonomousTurns, maxAutonomousTurns } = facts;
  if (status === 'stopped') return `it is stopped and refuses requests: agentturn agents start ${agentId}`;
  const ask = `agentturn enqueue --agent ${agentId} 'what it is to know'`;
  const isSpent = maxAutonomousTurns !== null && autonomousTurns >= maxAutonomousTurns;
  if (isSpent && closure !== null && (kept > 0 || closure.outcome === 'continuable'))
    return `it has made ${autonomousTurns === 1 ? '1 turn' : `${autonomousTurns} turns`} by itself, which is the most; tell it to go on: ${ask}`;
  switch (closure?.outcome) {
    case 'failed':
      return `its last turn failed and is not tried again by itself; look at it and ask again: ${ask}`;
    case 'waiting':
      return closure.waitingReason === 'awaiting_operator_input' ? `it waits for a person: ${ask}` : null;
    case 'continuable':
      return `it goes on when its work changes or something comes: ${ask}`;
    default:
      return null;
  }
}
