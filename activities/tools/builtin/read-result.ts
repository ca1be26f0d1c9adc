/** The built-in `read_result`: the rest of a result, or of what came for the agent, that a prompt shows only in part (W11, A9). */
import { z } from 'zod';
import { READ_RESULT } from '../../../workflows/protocol/builtins.ts';
import { atCodePoint, clip } from '../../../workflows/protocol/sizes.ts';
import { resultText } from '../../result-text.ts';
import { answeredTool, type BuiltinAnswer } from './builtin-tool.ts';

/** The most characters that one call may read. */
const MOST_CHARACTERS = 16_000;
const DEFAULT_CHARACTERS = 8_000;
/** Bytes that an error repeats of an id which the model made up. */
const SHOWN_ID_BYTES = 100;

/** `read_result`: answers with the rest of a shortened result. */
export const readResultTool = answeredTool({
  name: READ_RESULT,
  kind: null,
  offeredTo: () => true,
  description: 'Reads on in the result of an earlier call, or in what came from outside, that is shown only in part.',
  schema: z.object({
    call_id: z.string().min(1).describe('as the shortened text names it'),
    offset: z.int().nonnegative().default(0).describe('characters to skip'),
    limit: z.int().positive().max(MOST_CHARACTERS).default(DEFAULT_CHARACTERS).describe('characters to read'),
  }),
  answer: async ({ call_id: callId, offset, limit }, context) => {
    const found = await context.readResult(callId);
    const text = found ? resultText(found) : await context.readWake(callId);
    return text === null ? unknownCall(callId) : { result: part(text, offset, limit) };
  },
});

function unknownCall(callId: string): BuiltinAnswer {
  const message = `there is no result of a call ${clip(callId, SHOWN_ID_BYTES)} in this conversation; use the call_id that the shortened result names`;
  return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
}

function part(whole: string, offset: number, limit: number) {
  // Nothing is cut between the halves of a character; of a pair alone more is read than was asked for.
  const from = atCodePoint(whole, offset);
  const end = atCodePoint(whole, from + limit);
  const text = whole.slice(from, end > from ? end : from + 2);
  const next = from + text.length;
  return { text, offset: from, total: whole.length, next_offset: next < whole.length ? next : null };
}
