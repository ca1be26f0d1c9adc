/** How messages of a chat are shown to a model (C8). Pure. */
import type { MessagePayload, Sender } from '../protocol/chat.ts';
import { withoutElement } from './elements.ts';

/** A message as far as a model is shown it. */
export interface ShownMessage {
  readonly eventId: string;
  readonly sender: Sender;
  readonly payload: MessagePayload;
}

/** The line that opens a frame, and the first one in it. */
const FRAME = /^<message id="(?:[^"\\\n]|\\[^\n])*" from="([^"\n]+)">\n(.*)$/gm;

/** Messages in frames, as a person reads them in a list: the first line, whose it is, and how many more there are. */
export function shownWords(instruction: string): string {
  if (!instruction.startsWith('<message ')) return instruction;
  const [first, ...more] = [...instruction.matchAll(FRAME)];
  if (!first) return instruction;
  return `${first[1]}: ${first[2]}${more.length === 0 ? '' : ` (+${more.length})`}`;
}

/**
 * The text of the messages together, in their order, each still one by itself. One message of a session that has had one sender is its own
 * words, unless they look like a message of somebody; else each says whose it is, and its text cannot be taken for the end of it.
 */
export function renderMessages(messages: readonly ShownMessage[], severalSenders: boolean): string {
  const [only, ...more] = messages;
  if (only && more.length === 0 && !severalSenders) {
    const words = wordsOf(only.payload);
    if (withoutElement('message', words) === words) return words;
  }
  return messages.map(framed).join('\n\n');
}

const framed = ({ eventId, sender, payload }: ShownMessage): string =>
  `<message id=${quoted(eventId)} from=${quoted(sender.agentId)}>\n${withoutElement('message', wordsOf(payload))}\n</message>`;

const wordsOf = ({ text, attachments = [] }: MessagePayload): string =>
  [
    text,
    ...attachments.map(
      (each) => `<attachment name=${quoted(each.name)}>\n${withoutElement('attachment', each.text)}\n</attachment>`,
    ),
  ].join('\n\n');

const quoted = (text: string): string => JSON.stringify(text).replaceAll('<', '\\u003c');
