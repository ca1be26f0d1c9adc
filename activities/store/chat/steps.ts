/** The steps of a chat turn, told in the transactions that make them true (C3). */
import type { ChatStepFact } from '../../../workflows/chat/step.ts';
import { chatStatusOf, failureClassOf } from '../../../workflows/chat/terminal.ts';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { TerminalStatus } from '../../../workflows/protocol/turn.ts';
import type { Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { TurnRow } from '../schema/turn-row.ts';

/** Tells a step of a chat turn. */
export const tellStep = (tx: Tx, turn: TurnRow, payload: ChatStepFact): void =>
  appendEvent(tx, turn, { type: 'chat_step', payload });

/** Tells what the model has decided with its first answer, and which tools are executed. */
export function tellAnswer(tx: Tx, turn: TurnRow, stepIndex: number, tools: readonly string[]): void {
  const called = tools.filter((tool) => tool !== SUBMIT_RESULT);
  if (turn.step_count === 0)
    tellStep(tx, turn, { step: 'decide', path: called.length > 0 ? 'tool_assisted' : 'direct' });
  if (called.length > 0) tellStep(tx, turn, { step: 'execute', stepIndex, tools: called });
}

/** How a chat turn has ended. */
interface ChatEnd {
  readonly status: TerminalStatus;
  readonly errorCode: string | null;
  readonly reason: string | null;
}

/** Tells the last steps: a turn whose model was never heard has been decided over its head. */
export function tellEnd(tx: Tx, turn: TurnRow, { status, errorCode, reason }: ChatEnd): void {
  const said = chatStatusOf(status, errorCode);
  if (turn.step_count === 0 && said !== 'completed') {
    const path = errorCode !== null && failureClassOf(errorCode) === 'policy_denied' ? 'deny' : 'fail';
    tellStep(tx, turn, { step: 'decide', path, ...(reason === null ? {} : { reason }) });
  }
  tellStep(tx, turn, { step: 'respond', status: said });
  tellStep(tx, turn, { step: 'record' });
}
