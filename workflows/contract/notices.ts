/** What the kernel did on its own account, as far as people care (K4): an event of the turn, and a line in its current details. */
import type { Observation } from '../kernel/actions.ts';

const NOTICED = ['budget_hit', 'rolled_back', 'repeating', 'shortened', 'overflow'] as const;

/** An observation of the kernel that people are told of. */
export type Notice = Extract<Observation, { readonly type: (typeof NOTICED)[number] }>;

/** Whether people are told of the observation; the others are lines of a log only. */
export const isNotice = (seen: Observation): seen is Notice => NOTICED.some((type) => type === seen.type);

/** The notice in words, as one line without its turn and step. */
export function noticeText(notice: Notice): string {
  switch (notice.type) {
    case 'budget_hit':
      return `${notice.code}: ${notice.used} of ${notice.limit} used`;
    case 'rolled_back':
      return `a step was taken back, ${notice.inARow} in a row: ${notice.reason}`;
    case 'repeating':
      return `${notice.tool} was proposed alike ${notice.times} times in a row`;
    case 'shortened':
      return `${notice.mode === 'sprint' ? 'a new sprint' : 'a summary'} took the place of ${notice.cards} cards, ${notice.tokens} tokens less`;
    case 'overflow':
      return `the provider found the prompt too long, ${notice.time} in a row`;
  }
}
