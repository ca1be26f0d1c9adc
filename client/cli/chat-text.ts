/** Events of chats as lines for people. */
import type { ChatStepEvent, MessageEvent } from '../../workflows/contract/events.ts';

/** Where a message has gone. */
export const messageText = ({ eventId, seq, policy, placement, reason }: MessageEvent['payload']): string =>
  `message ${seq} ${placement === 'turn' ? 'makes a turn' : placement} by ${policy}${reason === undefined ? '' : `: ${reason}`} (${eventId})`;

/** A step of a chat turn. */
export function chatStepText(fact: ChatStepEvent['payload']): string {
  switch (fact.step) {
    case 'receive':
      return `receive: ${fact.messages === 1 ? '1 message' : `${fact.messages} messages`}, epoch ${fact.turnEpoch}`;
    case 'understand':
      return `understand: ${fact.sources.turns} earlier, context ${fact.contextHash.slice(0, 12)}`;
    case 'decide':
      return `decide: ${fact.path}${fact.reason === undefined ? '' : `, ${fact.reason}`}`;
    case 'execute':
      return `execute: ${fact.tools.join(', ')}`;
    case 'respond':
      return `respond: ${fact.status}`;
    case 'record':
      return 'record';
  }
}
