/** The six steps of a chat turn (C3). Pure. */

/** The steps of a chat turn, in their order; only `execute` is left out where no tool is called, and comes again with each further step of calls. */
export const CHAT_STEPS = ['receive', 'understand', 'decide', 'execute', 'respond', 'record'] as const;
/** A step of a chat turn (C3). */
export type ChatStep = (typeof CHAT_STEPS)[number];

/** What a step of a chat turn has come to (C3). */
export type ChatStepFact =
  /** The messages are checked, and the session's one turn holds its lease. */
  | { readonly step: 'receive'; readonly turnEpoch: number; readonly messages: number }
  /** What the turn will be shown, pinned by a hash: the same log and the same profile give the same. */
  | {
      readonly step: 'understand';
      readonly contextHash: string;
      /** The beginning of what is asked. */
      readonly objective: string;
      /** How many earlier turns are shown, and how many of their results as snippets. */
      readonly sources: { readonly turns: number; readonly toolSnippets: number };
      /** How many earlier turns, at least, are left out. */
      readonly trimmed: number;
    }
  /** The model has answered for the first time, or nothing was asked of it. */
  | { readonly step: 'decide'; readonly path: 'direct' | 'tool_assisted' | 'deny' | 'fail'; readonly reason?: string }
  | { readonly step: 'execute'; readonly stepIndex: number; readonly tools: readonly string[] }
  | { readonly step: 'respond'; readonly status: 'completed' | 'failed' | 'denied' }
  /** The terminal is in the store. */
  | { readonly step: 'record' };
