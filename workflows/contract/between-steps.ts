/** What a burst tells the kernel between two model calls; the step that follows keeps it, so that another attempt comes the same way. */
import type { LlmFailedEvent, SummarizedEvent, ToolResultsEvent } from '../kernel/events.ts';
import type { InboxDelivery } from './inbox.ts';

/** What leads from one step to the next. Times are in epoch ms by the clock of the workflow. */
export type BetweenSteps =
  | { readonly kind: 'event'; readonly event: ToolResultsEvent | SummarizedEvent | LlmFailedEvent }
  /** What the turn's inbox delivered before that event. */
  | { readonly kind: 'inbox'; readonly nowMs: number; readonly delivery: InboxDelivery };
