/** What the store recorded of a model call, as an event of the kernel. Pure. */
import type { StepOutcomeRecord } from '../contract/steps.ts';
import type { KernelEvent } from '../kernel/events.ts';
import type { Handle } from '../kernel/handles.ts';

/** The event of a model call that was answered, from what the store recorded of it. */
export function responseEvent(record: StepOutcomeRecord, nowMs: number): KernelEvent {
  const { stepIndex, thoughtCardId, thoughtSeq, thoughtTokens, noteSeq, noteTokens } = record;
  const { hasText, refused, truncated, calls, usage, cost } = record;
  const note: Handle[] = noteSeq === null ? [] : [[noteSeq, 'note', noteTokens]];
  const thought: Handle = [thoughtSeq, 'assistant', thoughtTokens];
  const steers = record.steers.map(({ seq, tokens }): Handle => [seq, 'user', tokens]);
  return {
    type: 'llm_response',
    nowMs,
    stepIndex,
    handles: [...steers, ...note, thought],
    thoughtCardId,
    hasText,
    refused,
    calls,
    usage,
    cost,
    ...(truncated ? { truncated } : {}),
  };
}
