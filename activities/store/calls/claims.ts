/**
 * Who may act for a turn: the lease, and of the attempts at one call the last that was claimed (T5, W10).
 *
 * Invariant: a claim is never taken back, so an attempt that has seen a later one will not be the one that counts again.
 */

import type { CallClaim } from '../../../workflows/contract/calls.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { read, type StoreContext, type Trx, together } from '../context.ts';
import { constant } from '../schema/rows.ts';
import { selectLease, staleEpoch } from '../turns/head.ts';

type Attempt = Pick<CallClaim, 'callId' | 'attempt'>;

export const selectClaims = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string, callId: string) =>
  db
    .selectFrom('dispatch_claims')
    .select('attempt')
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId);

export const isClaimed = async (trx: Trx, { agentTurnId }: Fence, callId: string): Promise<boolean> =>
  (await selectClaims(trx, agentTurnId, callId).executeTakeFirst()) !== undefined;

export async function insertClaims(
  trx: Trx,
  agentTurnId: string,
  claims: readonly Attempt[],
  now: number,
): Promise<void> {
  if (claims.length === 0) return;
  await trx
    .insertInto('dispatch_claims')
    .values(
      claims.map(({ callId, attempt }) => ({
        agent_turn_id: agentTurnId,
        call_id: callId,
        attempt,
        started_at: now,
        outcome: null,
        duration_ms: null,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

const selectResult = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string, callId: string) =>
  db
    .selectFrom('cards')
    .select('card_id')
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', constant('tool.result'));

/**
 * Errors: `stale_epoch` when the lease is over; `call_overtaken` when the call has a result by now, which the next attempt finds, or a later
 * attempt at it was claimed. Writes nothing.
 */
export const checkLease = (ctx: StoreContext, fence: Fence, attempt?: Attempt): Promise<void> =>
  read(ctx, async (db) => {
    const { agentTurnId } = fence;
    const callId = attempt?.callId ?? '';
    const [results, claims, [lease]] = await together(
      db,
      selectResult(db, agentTurnId, callId),
      selectClaims(db, agentTurnId, callId),
      // Last, like with a claim: it is what ends without a trace at the call.
      selectLease(db, fence),
    );
    const overtaken = attempt && (results.length > 0 || claims.some((claim) => claim.attempt > attempt.attempt));
    if (!lease) throw staleEpoch(fence);
    if (overtaken)
      throw new CodedError('call_overtaken', `call ${callId} went on without attempt ${attempt.attempt} at it`);
  });
