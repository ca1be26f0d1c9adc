/** Whether what foreign clients asked for was done: each request that Temporal took is one turn, or an event says why it is none. */
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import type { ForeignRequest, Ledger, Problem } from './ledger.ts';

/** The one reason for which a request of a run may be refused. */
const AGENT_STOPPED = 'agent_stopped:';

export function foreignProblems(
  ledger: Ledger,
  agentId: string,
  turns: readonly TurnView[],
  events: readonly AgentEvent[],
): readonly Problem[] {
  const requests = ledger.foreign.filter((request) => request.agentId === agentId);
  const reasons = events.flatMap((event) => (event.type === 'dropped' ? [event.payload.reason] : []));
  const stopped = reasons.filter((reason) => reason.startsWith(AGENT_STOPPED)).length;
  return [
    ...severalTurns(requests, turns),
    ...lost(ledger, requests, turns, stopped),
    ...reasons
      .filter((reason) => !reason.startsWith(AGENT_STOPPED))
      .map((detail) => ({ check: 'foreign_request_dropped', agentId, detail })),
  ];
}

function severalTurns(requests: readonly ForeignRequest[], turns: readonly TurnView[]): Problem[] {
  const texts = new Map(requests.map((request) => [request.instruction, request]));
  return [...texts.values()].flatMap(({ agentId, agentTurnId, instruction }) => {
    const made = turns.filter((turn) => turn.instruction === instruction).map((turn) => turn.agentTurnId);
    if (made.length === 0 || (made.length === 1 && made[0] === agentTurnId)) return [];
    return [{ check: 'one_key_two_turns', agentId, agentTurnId, detail: `its request made ${made.join(', ')}` }];
  });
}

/** A refusal does not name the request it is about, so as many may be missing as were refused. */
function lost(
  ledger: Ledger,
  requests: readonly ForeignRequest[],
  turns: readonly TurnView[],
  refused: number,
): readonly Problem[] {
  const known = new Map(turns.map((turn) => [turn.agentTurnId, turn]));
  const missing = new Map(
    requests
      .filter(({ agentTurnId, through }) => !known.has(agentTurnId) && wasTaken(ledger, through, known))
      .map((request) => [request.agentTurnId, request]),
  );
  if (missing.size <= refused) return [];
  return [...missing.values()].map(({ agentId, agentTurnId, through }) => {
    const to = through === null ? 'the acceptor' : `turn ${through}`;
    return { check: 'foreign_request_lost', agentId, agentTurnId, detail: `${to} had it; ${refused} were refused` };
  });
}

/** What a turn was given counts only if its workflow has come to its own end: one that somebody closed may not have looked at it. */
function wasTaken(ledger: Ledger, through: string | null, known: ReadonlyMap<string, TurnView>): boolean {
  if (through === null) return true;
  return (known.get(through)?.engine ?? null) !== null && ledger.hitsOf(through).length === 0;
}
