/** Which cards a conversation has got since a reader last asked (K22). Pure: the reader keeps the mark. */
import type { BoxExtent } from './handles.ts';
import type { KernelState } from './state.ts';

/** The cards since the last mark, and the mark for the next time. */
export interface NewMessages {
  /** A stretch of the output box, which includes cards that were summarised or taken back since; null when there is nothing new. */
  readonly cards: BoxExtent | null;
  readonly mark: number;
}

/**
 * Gives each card exactly once. The first mark is 0 for a reader who wants all cards; for a conversation that is taken up again it is the
 * place of its last card. The results of a step come together when the last one is in, because until then one that is still to come
 * may take a place between them.
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
