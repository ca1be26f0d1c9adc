/** A call and its result as the store keeps them: two cards, found by the turn and the id of the call. */
import type { SettledCall } from '../../../workflows/kernel/state.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { read, type StoreContext, type Trx } from '../context.ts';
import { type CardRow, constant, type TurnRow } from '../schema/rows.ts';

export interface StoredCall {
  readonly stepIndex: number;
  readonly content: CardContents['tool.call'];
}

export async function findCall(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall | null> {
  const row = await trx
    .selectFrom('cards')
    .select(['content', 'step_index'])
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', 'tool.call')
    .executeTakeFirst();
  return row ? { stepIndex: row.step_index ?? 0, content: JSON.parse(row.content) as CardContents['tool.call'] } : null;
}

export async function callOf(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall> {
  const call = await findCall(trx, agentTurnId, callId);
  if (call) return call;
  throw noCall(agentTurnId, callId);
}

export const noCall = (agentTurnId: string, callId: string): CodedError =>
  new CodedError('protocol_violation', `turn ${agentTurnId} has no call ${callId}`);

export const readCall = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  callId: string,
): Promise<CardContents['tool.call'] | null> =>
  read(ctx, async (db) => (await findCall(db as Trx, agentTurnId, callId))?.content ?? null);

export async function findResult(trx: Trx, turn: TurnRow, callId: string): Promise<SettledCall | null> {
  const row = await trx
    .selectFrom('cards')
    .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
    .select(['cards.content', 'cards.token_count', 'box_cards.seq'])
    .where('cards.agent_turn_id', '=', turn.agent_turn_id)
    .where('cards.call_id', '=', callId)
    .where('cards.type', '=', constant('tool.result'))
    .where('box_cards.box_id', '=', turn.output_box_id ?? '')
    .executeTakeFirst();
  return row ? toSettled(JSON.parse(row.content) as ToolResultContent, row.seq, row.token_count) : null;
}

/** The call of a turn, and its result when it has one. */
export const selectCallAndResult = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string, callId: string) =>
  db
    .selectFrom('cards')
    .select(({ selectFrom }) => [
      'cards.type',
      'cards.content',
      'cards.step_index',
      'cards.token_count',
      selectFrom('box_cards')
        .select('seq')
        .where('box_id', '=', ({ selectFrom }) =>
          selectFrom('turns').select('output_box_id').where('turns.agent_turn_id', '=', agentTurnId),
        )
        .whereRef('box_cards.card_id', '=', 'cards.card_id')
        .as('seq'),
    ])
    .where('cards.agent_turn_id', '=', agentTurnId)
    .where('cards.call_id', '=', callId)
    .where('cards.type', 'in', [constant('tool.call'), constant('tool.result')]);

type CallAndResultRow = Pick<CardRow, 'type' | 'content' | 'step_index' | 'token_count'> & {
  readonly seq: number | null;
};

/** Errors: `protocol_violation`, when the turn has no such call. */
export function callAndResultOf(
  rows: readonly CallAndResultRow[],
  agentTurnId: string,
  callId: string,
): StoredCall & { readonly settled: SettledCall | null } {
  const call = rows.find((row) => row.type === 'tool.call');
  if (!call) throw noCall(agentTurnId, callId);
  const result = rows.find((row) => row.type === 'tool.result' && row.seq !== null);
  return {
    stepIndex: call.step_index ?? 0,
    content: JSON.parse(call.content) as CardContents['tool.call'],
    settled: result
      ? toSettled(JSON.parse(result.content) as ToolResultContent, result.seq ?? 0, result.token_count)
      : null,
  };
}

/** Of any call whose result is in the agent's output box, whatever is shown of it (W11). */
export const readResult = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  callId: string,
): Promise<ToolResultContent | null> =>
  read(ctx, async (db) => {
    const row = await db
      .selectFrom('cards')
      .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
      .innerJoin('turns', 'turns.output_box_id', 'box_cards.box_id')
      .select('cards.content')
      .where('turns.agent_turn_id', '=', agentTurnId)
      .where('cards.call_id', '=', callId)
      .where('cards.type', '=', constant('tool.result'))
      .executeTakeFirst();
    return row ? (JSON.parse(row.content) as ToolResultContent) : null;
  });

export const toSettled = (content: ToolResultContent, seq: number, tokens: number): SettledCall => ({
  callId: content.callId,
  status: content.status,
  afterExecution: content.afterExecution,
  ...(content.error ? { errorCode: content.error.code } : {}),
  ...(content.error?.kind && content.error.kind !== 'recoverable' ? { errorKind: content.error.kind } : {}),
  seq,
  tokens,
});
