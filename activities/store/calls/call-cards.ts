/** A call and its result as the store keeps them: two cards, found by the turn and the id of the call. */
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { prepared } from '../prepared.ts';
import { type CardRow, constant, contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';

/** A call as it was proposed, and the step that proposed it. */
export interface StoredCall {
  readonly stepIndex: number;
  readonly content: CardContents['tool.call'];
}

/** The call; null when the turn has no such call. */
export async function findCall({ db }: Reader, agentTurnId: string, callId: string): Promise<StoredCall | null> {
  const row = await db
    .selectFrom('cards')
    .select(['content', 'step_index'])
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', 'tool.call')
    .executeTakeFirst();
  return row ? { stepIndex: row.step_index ?? 0, content: contentOf(row, 'tool.call') } : null;
}

/** The call. Errors: `protocol_violation`, when the turn has no such call. */
export async function callOf(reader: Reader, agentTurnId: string, callId: string): Promise<StoredCall> {
  const call = await findCall(reader, agentTurnId, callId);
  if (call) return call;
  throw noCall(agentTurnId, callId);
}

const noCall = (agentTurnId: string, callId: string): CodedError =>
  new CodedError('protocol_violation', `turn ${agentTurnId} has no call ${callId}`);

/** Reads a call of the turn as it was proposed; null when there is no such call. */
export const readCall = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  callId: string,
): Promise<CardContents['tool.call'] | null> =>
  read(ctx, async (reader) => (await findCall(reader, agentTurnId, callId))?.content ?? null);

/** A turn that has the box in which its results are kept. */
type Boxed = TurnRow & { readonly output_box_id: string };

/** The result of the call; null while it is not in the turn's output box. */
export async function findResult({ db }: Reader, turn: Boxed, callId: string): Promise<SettledCall | null> {
  const row = await db
    .selectFrom('cards')
    .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
    .select(['cards.content', 'cards.token_count', 'box_cards.seq'])
    .where('cards.agent_turn_id', '=', turn.agent_turn_id)
    .where('cards.call_id', '=', callId)
    .where('cards.type', '=', constant('tool.result'))
    .where('box_cards.box_id', '=', turn.output_box_id)
    .executeTakeFirst();
  return row ? toSettled(contentOf(row, 'tool.result'), row.seq, row.token_count) : null;
}

/** A query for the call of a turn, and its result when it has one. */
export const selectCallAndResult = ({ db }: Reader, agentTurnId: string, callId: string) =>
  callAndResult(db, { agentTurnId, callId });

const callAndResult = prepared((db, call: { agentTurnId: string; callId: string }) =>
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
          selectFrom('turns').select('output_box_id').where('turns.agent_turn_id', '=', call.agentTurnId),
        )
        .whereRef('box_cards.card_id', '=', 'cards.card_id')
        .as('seq'),
    ])
    .where('cards.agent_turn_id', '=', call.agentTurnId)
    .where('cards.call_id', '=', call.callId)
    .where('cards.type', 'in', [constant('tool.call'), constant('tool.result')]),
);

type CallAndResultRow = Pick<CardRow, 'type' | 'content' | 'step_index' | 'token_count'> & {
  /** The place in the turn's output box; null for what is not in it. */
  readonly seq: number | null;
};

/** A call, and its result when it has one. */
export interface CallAndResult {
  readonly call: StoredCall;
  readonly settled: SettledCall | null;
}

/** What `selectCallAndResult` found. Errors: `protocol_violation`, when the turn has no such call. */
export function callAndResultOf(rows: readonly CallAndResultRow[], agentTurnId: string, callId: string): CallAndResult {
  const call = rows.find((row) => row.type === 'tool.call');
  if (!call) throw noCall(agentTurnId, callId);
  const result = rows.find((row) => row.type === 'tool.result' && row.seq !== null);
  return {
    call: { stepIndex: call.step_index ?? 0, content: contentOf(call, 'tool.call') },
    settled: result ? toSettled(contentOf(result, 'tool.result'), result.seq ?? 0, result.token_count) : null,
  };
}

/**
 * Reads the whole result of any call whose result is in the turn's output box, whatever is shown of it; null when it is not there (W11).
 */
export const readResult = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  callId: string,
): Promise<ToolResultContent | null> =>
  read(ctx, async ({ db }) => {
    const row = await db
      .selectFrom('cards')
      .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
      .select('cards.content')
      .where('box_cards.box_id', '=', (eb) =>
        eb.selectFrom('turns').select('output_box_id').where('agent_turn_id', '=', agentTurnId),
      )
      .where('cards.call_id', '=', callId)
      .where('cards.type', '=', constant('tool.result'))
      .executeTakeFirst();
    return row ? contentOf(row, 'tool.result') : null;
  });

/** What the workflow is told of a result: never what the tool returned, which would stand in its history (T4). */
export const toSettled = (content: ToolResultContent, seq: number, tokens: number): SettledCall => ({
  callId: content.callId,
  status: content.status,
  afterExecution: content.afterExecution,
  ...(content.error ? { errorCode: content.error.code } : {}),
  ...(content.error?.kind && content.error.kind !== 'recoverable' ? { errorKind: content.error.kind } : {}),
  seq,
  tokens,
});
