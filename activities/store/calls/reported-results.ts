/** What a report, or the lack of one, says as the result of its call. */

import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import type { ResultReport } from '../../../workflows/contract/calls.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { effectiveAfterExecution } from '../../../workflows/waiting/after-execution.ts';
import type { Reader } from '../context.ts';
import { contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { mayUse } from '../turns/at-the-border.ts';
import type { EndOfCall } from './tool-specs.ts';

type Call = CardContents['tool.call'];

/** A report of a caller with a border: it brings no card that the caller does not see, however late it is applied. */
export interface FromWithin {
  readonly within?: Border;
}

/** What a report brings. */
export interface Body {
  /** Absent when the report has no result. */
  readonly result?: JsonValue;
  /** Why the card that the report names cannot be a result; absent when it can. */
  readonly problem?: string;
}

/** What the report says, or the card it names; null while no card that the turn may be given is in the store under that id (T18). */
export async function bodyOf(
  reader: Reader,
  { tenant }: Pick<TurnRow, 'tenant'>,
  report: ToolResultReport & FromWithin,
): Promise<Body | null> {
  const { db } = reader;
  const { toolResultCardId: cardId, result } = report;
  if (cardId === undefined) return result === undefined ? {} : { result };
  const card = await db
    .selectFrom('cards')
    .select(['type', 'content'])
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  if (!card || !(await mayUse(reader, report.within ?? NO_BORDER, { cardId }, tenant))) return null;
  if (card.type !== 'tool.output') return { problem: `card ${cardId} is a ${card.type}, not the output of a tool` };
  return { result: contentOf(card, 'tool.output').value };
}

/** The result of the call that a report brings; `otherwise` is what becomes of the turn where the report does not say. */
export function resultContent(
  call: Call,
  otherwise: EndOfCall,
  report: ResultReport,
  { result, problem }: Body,
): ToolResultContent {
  if (problem !== undefined) return failure(call, otherwise, { code: 'invalid_result', message: problem });
  const effective = effectiveAfterExecution(result, report.afterExecution, otherwise);
  // A result that is there cannot suspend its call again.
  const afterExecution = effective === 'terminate' ? 'terminate' : 'continue';
  const { callId, tool } = call;
  const { status } = report;
  if (status === 'success') return { callId, tool, afterExecution, status, result: result ?? null };
  const error = report.error ?? {
    code: status === 'timeout' ? 'tool_timeout' : 'tool_failed',
    message: `${tool} reported ${status}`,
  };
  const body = result === undefined ? {} : { result };
  return { callId, tool, afterExecution, status, ...body, error: error as NonNullable<ToolResultContent['error']> };
}

/** The result of a call whose report cannot be applied. */
export const failure = (
  { callId, tool }: Call,
  afterExecution: EndOfCall,
  error: { readonly code: 'invalid_result' | 'card_not_found'; readonly message: string },
): ToolResultContent => ({
  callId,
  tool,
  status: 'failed',
  afterExecution,
  error: { ...error, kind: 'recoverable' },
});

/** The result of a call that got no answer before its deadline (T17). */
export const timedOut = ({ callId, tool }: Call, afterExecution: EndOfCall): ToolResultContent => ({
  callId,
  tool,
  status: 'timeout',
  afterExecution,
  error: {
    code: 'tool_timeout',
    message: `${tool} got no answer before its deadline`,
    kind: 'timeout',
    retryable: true,
  },
});
