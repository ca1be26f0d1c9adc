/** Storing a tool result: one card per call, whoever comes first (T14). The caller holds the agent's head row. */
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { resultCardId } from '../../ids.ts';
import { appendNew, insertCard } from '../cards/cards.ts';
import { read, type StoreContext, type Trx } from '../context.ts';
import { appendEdge, appendEvent } from '../log/events.ts';
import { type CardRow, constant, type TurnRow } from '../schema/rows.ts';
import type { MaybeHeld } from '../turns/turns.ts';
import { approvalOf } from './approvals.ts';
import type { StoredCall } from './calls.ts';

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

export const noCall = (agentTurnId: string, callId: string): CodedError =>
  new CodedError('protocol_violation', `turn ${agentTurnId} has no call ${callId}`);

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

/** `fresh` is false when the call already had its result, which is `known` where it was looked for: it is returned and nothing is written. */
export async function storeResult(
  trx: Trx,
  turn: MaybeHeld,
  stepIndex: number,
  result: ToolResultContent,
  now: number,
  durationMs?: number,
  known?: SettledCall | null,
): Promise<{ settled: SettledCall; fresh: boolean; cardId: string }> {
  const { agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const { callId } = result;
  const cardId = resultCardId(agentTurnId, callId);
  const present = known === undefined ? await findResult(trx, turn, callId) : known;
  if (present) return { settled: present, fresh: false, cardId };
  const approval = turn.waited === false ? undefined : await approvalOf(trx, agentTurnId, callId);
  const content = withinLimit(approval ? { ...result, approval } : result);
  const tokens = await insertCard(
    trx,
    { cardId, type: 'tool.result', content, author: agentId, agentTurnId, stepIndex, callId },
    now,
  );
  const seq = await appendNew(trx, turn.output_box_id ?? '', cardId, agentId);
  const edge = {
    primitive: 'report',
    phase: 'response',
    kind: content.status === 'timeout' ? 'timeout' : 'tool_result',
  } as const;
  const target = { target_agent_id: agentId, target_agent_turn_id: agentTurnId, call_id: callId };
  appendEdge(trx, callId, { ...edge, ...target, depth: turn.depth, trace_id: turn.trace_id }, now);
  const payload = {
    callId,
    tool: content.tool,
    phase: 'settled',
    status: content.status,
    cardId,
    ...(durationMs === undefined ? {} : { durationMs }),
  } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'call', payload }, now);
  return { settled: toSettled(content, seq, tokens), fresh: true, cardId };
}

/** An oversized result becomes a failed one that says so, instead of an error that retries for ever (T4). */
function withinLimit(result: ToolResultContent): ToolResultContent {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  if (bytes <= SIZES.cardBytes) return result;
  const { callId, tool } = result;
  const message = `the result of ${tool} has ${bytes} bytes, at most ${SIZES.cardBytes} are kept; ask for a smaller part`;
  return { callId, tool, status: 'failed', afterExecution: 'continue', error: { code: 'result_too_large', message } };
}

const toSettled = (content: ToolResultContent, seq: number, tokens: number): SettledCall => ({
  callId: content.callId,
  status: content.status,
  afterExecution: content.afterExecution,
  ...(content.error ? { errorCode: content.error.code } : {}),
  ...(content.error?.kind && content.error.kind !== 'recoverable' ? { errorKind: content.error.kind } : {}),
  seq,
  tokens,
});
