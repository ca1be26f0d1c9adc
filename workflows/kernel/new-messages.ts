/** What a conversation got since somebody last looked (K22). Pure; whoever looks keeps the mark. */
import type { BoxExtent } from './handles.ts';
import type { KernelState } from './state.ts';

export interface NewMessages {
  /** A stretch of the output box, cards that were shortened or taken back since included; null when there is nothing new. */
  readonly cards: BoxExtent | null;
  /** The mark for the next look. */
  readonly mark: number;
}

/**
 * Each card exactly once, from the first mark on (0: from the beginning; the last card of a conversation that is taken up again).
 * Results of a step come all together when the last one is in: they take their places in the box in whatever order they arrive.
 */
export function drainNewMessages(state: KernelState, mark: number): NewMessages {
  const last = lastSettled(state);
  if (last <= mark) return { cards: null, mark };
  return { cards: { boxId: state.outputBoxId, fromSeq: mark + 1, toSeq: last }, mark: last };
}

function lastSettled({ phase, handles, context }: KernelState): number {
  const acting = phase.kind === 'acting';
  const last = acting ? handles.findLast((handle) => handle[1] === 'assistant') : handles.at(-1);
  return Math.max(last?.[0] ?? 0, context.summary?.[0] ?? 0);
}
