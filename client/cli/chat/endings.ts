/** How a chat turn has ended, as lines: why it did not complete, what to do next, and what it took. */
import { type ChatTerminal, terminalOf } from '../../../workflows/chat/terminal.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { shownTokens } from '../../../workflows/protocol/turn.ts';
import { counted, duration } from '../format.ts';

/** Why the turn did not complete, and what a person can do about it; none for one that has completed. */
export function failureLines({ status, failure }: ChatTerminal): readonly string[] {
  if (!failure) return [];
  // What somebody did on purpose has no class that would say more.
  const isPlain = failure.class === failure.code || failure.code === 'stopped' || failure.code === 'canceled';
  const kind = isPlain ? failure.code : `${failure.class}, ${failure.code}`;
  return [`${status} [${kind}]: ${failure.reason}`, `next: ${failure.nextAction}`];
}

/** The lines of `failureLines` for a turn; none for one that is open or of no chat. */
export function turnFailureLines(view: TurnView): readonly string[] {
  const terminal = terminalOf(view);
  return terminal ? failureLines(terminal) : [];
}

/** Tokens and cost of a turn, or of several. */
export function spentText({ usage, cost }: Pick<TurnView, 'usage' | 'cost'>): string {
  const price = cost === null ? '' : `, cost ${cost.toFixed(4)}`;
  return `${shownTokens(usage.input, usage)} tokens in, ${shownTokens(usage.output, usage)} out${price}`;
}

/** What the turn took, on one line. */
export function effortText(view: TurnView): string {
  const { leasedAt, acceptedAt, endedAt, steps } = view;
  const took = endedAt === null ? [] : [duration(endedAt - (leasedAt ?? acceptedAt))];
  const calls = steps.reduce((sum, step) => sum + step.calls.length, 0);
  return [...took, ...(calls === 0 ? [] : [counted(calls, 'call')]), spentText(view)].join(', ');
}
