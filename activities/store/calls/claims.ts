/**
 * Who may act for a turn: the lease, and of the attempts at one call the last that was claimed (T5, W10).
 *
 * Invariant: a claim is never taken back, so an attempt that has seen a later one will not be the one that counts again.
 */
import type { CallAttempt, CallClaim } from '../../../workflows/contract/calls.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext, type Tx, together } from '../context.ts';
import { insertRows, prepared } from '../prepared.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import { type ClaimRow, constant } from '../schema/rows.ts';
import { type Acting, actingNow, isShutOut } from '../turns/attempts.ts';
import { refuseShutOut, selectLease } from '../turns/head.ts';

/** A query for the claims of a call. */
export const selectClaims = ({ db }: Reader, agentTurnId: string, callId: string) =>
  claimsOf(db, { agentTurnId, callId });

const claimsOf = prepared((db, call: { agentTurnId: string; callId: string }) =>
  db
    .selectFrom('dispatch_claims')
    .select(['attempt', 'made_by'])
    .where('agent_turn_id', '=', call.agentTurnId)
    .where('call_id', '=', call.callId),
);

/** The number of the last attempt that was claimed; 0 when none was. */
export const lastAttempt = (claims: readonly Pick<CallAttempt, 'attempt'>[]): number =>
  Math.max(0, ...claims.map(({ attempt }) => attempt));

/** A claim to be written; one that is made with the step of the call is no attempt's. */
type NewClaim = CallAttempt & Partial<Pick<CallClaim, 'by'>>;

/** Claims these attempts; one that was claimed before stays as it is. */
export async function insertClaims(tx: Tx, agentTurnId: string, claims: readonly NewClaim[]): Promise<void> {
  const rows = claims.map(({ callId, attempt, by }) => ({
    agent_turn_id: agentTurnId,
    call_id: callId,
    attempt,
    made_by: by ? encoded(by) : null,
    started_at: tx.at,
    outcome: null,
    duration_ms: null,
    progress: null,
  }));
  await insertRows(tx.db, 'dispatch_claims', rows, ['agent_turn_id', 'call_id', 'attempt']);
}

/** Whether a later attempt was claimed. */
export const isOvertaken = (claims: readonly Pick<CallAttempt, 'attempt'>[], { attempt }: CallAttempt): boolean =>
  lastAttempt(claims) > attempt;

/** Refuses a claim after that of an attempt that comes later. Errors: `call_overtaken`. */
export function refuseLate(
  claims: readonly Pick<ClaimRow, 'attempt' | 'made_by'>[],
  { callId, by }: Pick<CallClaim, 'callId' | 'by'>,
): void {
  const made = claims.toSorted((a, b) => a.attempt - b.attempt).flatMap(({ made_by }) => made_by ?? []);
  const acting = made.reduce<Json<Acting> | null>((before, each) => actingNow(before, decoded(each)) ?? before, null);
  if (isShutOut(acting, by)) throw overtaken({ callId });
}

/** The error of an attempt without which its call went on. */
export const overtaken = ({ callId }: Pick<CallAttempt, 'callId'>): CodedError =>
  new CodedError('call_overtaken', `call ${callId} went on without this attempt at it: nothing was started or written`);

/** A query that gives a row when the call has a result. */
const selectResult = ({ db }: Reader, agentTurnId: string, callId: string) =>
  db
    .selectFrom('cards')
    .select('card_id')
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', constant('tool.result'));

/** Whether the lease holds, and whether the call still waits for that attempt. Errors: `stale_epoch`, `call_overtaken`. */
export const checkLease = (ctx: StoreContext, fence: Fence, attempt?: CallAttempt): Promise<void> =>
  read(ctx, async (reader) => {
    const { agentTurnId } = fence;
    const callId = attempt?.callId ?? '';
    const [results, claims, [lease]] = await together(
      reader.db,
      selectResult(reader, agentTurnId, callId),
      selectClaims(reader, agentTurnId, callId),
      // Last, like with a claim: a lease ends without a trace at the call.
      selectLease(reader, fence),
    );
    refuseShutOut(lease, fence);
    if (attempt && (results.length > 0 || isOvertaken(claims, attempt))) throw overtaken(attempt);
  });
