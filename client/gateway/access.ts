/** Which turns, agents and boxes a caller sees. What it does not see is told as if it were not there. */
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { Card } from '../../workflows/protocol/cards.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { SIZES } from '../../workflows/protocol/sizes.ts';
import type { Caller } from './caller.ts';

/** Errors: `agent_not_found`. */
export function demandAgent(caller: Caller, agentId: string): void {
  if (!caller.sees(agentId)) throw new CodedError('agent_not_found', `there is no agent ${agentId} for this token`);
}

/**
 * The agent of a turn that the caller sees: a turn of one of its agents, or one that such a turn delegated. Errors: `turn_not_found`.
 */
export async function agentOfTurn(store: ClientStore, caller: Caller, agentTurnId: string): Promise<string> {
  const turn = await store.getTurn(agentTurnId);
  for (let [at, depth] = [turn, 0]; at && depth <= SIZES.maxDepth; depth += 1) {
    if (caller.sees(at.agentId)) return turn?.agentId ?? at.agentId;
    at = at.parent ? await store.getTurn(at.parent.agentTurnId) : null;
  }
  throw new CodedError('turn_not_found', `there is no turn ${agentTurnId} in this store, or not for this token`);
}

/** Whether the caller sees a card: one of a turn that it sees, or one that no turn wrote. */
export async function seesCard(
  store: ClientStore,
  caller: Caller,
  { agentTurnId }: Pick<Card, 'agentTurnId'>,
): Promise<boolean> {
  if (caller.agentPrefixes === undefined || agentTurnId === null) return true;
  return agentOfTurn(store, caller, agentTurnId).then(
    () => true,
    (error: unknown) => {
      if (error instanceof CodedError && error.code === 'turn_not_found') return false;
      throw error;
    },
  );
}

/** Errors: `box_unavailable` for a box of an agent that the caller does not see. */
export async function demandBox(store: ClientStore, caller: Caller, boxId: string | undefined): Promise<void> {
  if (boxId === undefined || caller.agentPrefixes === undefined) return;
  const box = await store.findBox(boxId);
  if (box && (box.ownerAgentId === null || caller.sees(box.ownerAgentId))) return;
  throw new CodedError('box_unavailable', `there is no box ${boxId} for this token; pass an existing one`);
}
