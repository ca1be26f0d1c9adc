/** The text of a result, whole, as the model reads it: in a prompt, and in parts by `read_result`. */
import type { ToolResultContent } from '../workflows/protocol/cards.ts';

/** Stands for the result of a call that never got one. */
const NO_RESULT = { code: 'canceled', message: 'the turn ended before this call had a result' };

/** What an approver said about the call comes first. `undefined` stands for a call whose turn ended before it had a result. */
export const resultText = (result: ToolResultContent | undefined): string =>
  approvalText(result?.approval) +
  (result?.status === 'success' ? stringify(result.result ?? null) : stringify(failureBody(result)));

/** In the conversation the call stays as the model wrote it: here it reads what was changed. */
function approvalText(approval: ToolResultContent['approval']): string {
  if (!approval) return '';
  const { by = 'An approver', arguments: edited, reason } = approval;
  const what = edited ? ` changed the arguments to ${JSON.stringify(edited)}` : ' approved this';
  return `(${by}${what}${reason === undefined ? '' : `: ${reason}`})\n`;
}

const failureBody = (result: ToolResultContent | undefined) =>
  result === undefined
    ? { error: NO_RESULT }
    : { error: result.error, status: result.status, ...(result.result === undefined ? {} : { result: result.result }) };

const stringify = (value: unknown): string =>
  typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
