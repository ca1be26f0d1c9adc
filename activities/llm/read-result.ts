/** The built-in `read_result`: the rest of a result that a prompt shows only in part (W11). Answered while the call is proposed. */
import { z } from 'zod';
import { READ_RESULT } from '../../workflows/protocol/builtins.ts';
import type { ToolError, ToolResultContent } from '../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { atCodePoint, clip } from '../../workflows/protocol/sizes.ts';
import { parametersOf } from '../parameters.ts';
import { resultText } from '../result-text.ts';

const MOST_CHARACTERS = 16_000;
/** Of an id that the model made up. */
const SHOWN_ID_BYTES = 100;
const DEFAULT_CHARACTERS = 8_000;

export const readResultSchema = z.object({
  call_id: z.string().min(1).describe('as the shortened result names it'),
  offset: z.int().nonnegative().default(0).describe('characters to skip'),
  limit: z.int().positive().max(MOST_CHARACTERS).default(DEFAULT_CHARACTERS).describe('characters to read'),
});

export const readResultTool = {
  name: READ_RESULT,
  description: 'Reads on in the result of an earlier call that is shown only in part.',
  parameters: parametersOf(readResultSchema),
};

export type ReadAnswer = { readonly result: JsonObject } | { readonly error: ToolError };

/** `found` is null for a call that this agent never made, or whose result is not there. */
export function answerRead(
  { call_id: callId, offset, limit }: z.output<typeof readResultSchema>,
  found: ToolResultContent | null,
): ReadAnswer {
  if (!found) {
    const message = `there is no result of a call ${clip(callId, SHOWN_ID_BYTES)} in this conversation; use the call_id that the shortened result names`;
    return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
  }
  const text = resultText(found);
  // Nothing is cut between the halves of a character; of a pair alone more is read than was asked for.
  const from = atCodePoint(text, offset);
  const end = atCodePoint(text, from + limit);
  const part = text.slice(from, end > from ? end : from + 2);
  const next = from + part.length;
  return { result: { text: part, offset: from, total: text.length, next_offset: next < text.length ? next : null } };
}
