/** What a report, or the lack of one, says as the result of its call. */
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { effectiveAfterExecution } from '../../../workflows/waiting/after-execution.ts';
import type { Trx } from '../context.ts';
import type { FinalReport } from './deferrals.ts';

export type EndOfCall = 'continue' | 'terminate';

export interface Body {
  readonly result?: JsonValue;
  /** Why the card cannot be a result. */
  readonly problem?: string;
}

/** What the report says, or the card it names; null while that card is not in the store (T18). */
export async function bodyOf(trx: Trx, report: ToolResultReport): Promise<Body | null> {
  const { toolResultCardId: cardId, result } = report;
  if (cardId === undefined) return result === undefined ? {} : { result };
  const card = await trx
    .selectFrom('cards')
    .select(['type', 'content'])
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  if (!card) return null;
  if (card.type !== 'tool.output') return { problem: `card ${cardId} is a ${card.type}, not the output of a tool` };
  return { result: (JSON.parse(card.content) as CardContents['tool.output']).value };
}

export function resultContent(
  { callId, tool }: CardContents['tool.call'],
  otherwise: EndOfCall,
  report: FinalReport,
  { result, problem }: Body,
): ToolResultContent {
  if (problem !== undefined) return failure(callId, tool, otherwise, 'invalid_result', problem);
  // A result that is there cannot suspend its call again.
  const effective = effectiveAfterExecution(result, report.afterExecution, otherwise);
  const afterExecution = effective === 'terminate' ? 'terminate' : 'continue';
  const base = { callId, tool, afterExecution } as const;
  const { status } = report;
  if (status === 'success') return { ...base, status, result: result ?? null };
  const error = report.error ?? {
    code: status === 'timeout' ? 'tool_timeout' : 'tool_failed',
    message: `${tool} reported ${status}`,
  };
  const body = result === undefined ? {} : { result };
  return { ...base, status, ...body, error: error as NonNullable<ToolResultContent['error']> };
}

export const failure = (
  callId: string,
  tool: string,
  afterExecution: EndOfCall,
  code: 'invalid_result' | 'card_not_found',
  message: string,
): ToolResultContent => ({
  callId,
  tool,
  status: 'failed',
  afterExecution,
  error: { code, message, kind: 'recoverable' },
});

export const timedOut = (
  { callId, tool }: CardContents['tool.call'],
  afterExecution: EndOfCall,
): ToolResultContent => ({
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
