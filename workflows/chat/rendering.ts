/** How messages of a chat are shown to a model (C8). Pure. */
import type { MessagePayload, Sender } from '../protocol/chat.ts';

/** A message as far as a model is shown it. */
export interface ShownMessage {
  readonly eventId: string;
  readonly sender: Sender;
  readonly payload: MessagePayload;
}

/** Messages in frames, as a person reads them in a list: the first line, whose it is, and how many more there are. */
export function shownWords(instruction: string): string {
  const frames = [...instruction.matchAll(/^<message id="(?:[^"\\]|\\.)*" from="([^"]+)">\n(.*)$/gm)];
  const [first, ...more] = frames;
  if (!first || !instruction.startsWith('<message ')) return instruction;
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
    if (escaped('message', words) === words) return words;
  }
  return messages.map(framed).join('\n\n');
}

const framed = ({ eventId, sender, payload }: ShownMessage): string =>
  `<message id=${quoted(eventId)} from=${quoted(sender.agentId)}>\n${escaped('message', wordsOf(payload))}\n</message>`;

const wordsOf = ({ text, attachments = [] }: MessagePayload): string =>
  [
    text,
    ...attachments.map(
      (each) => `<attachment name=${quoted(each.name)}>\n${escaped('attachment', each.text)}\n</attachment>`,
    ),
  ].join('\n\n');

/** The text, in which nothing opens or closes an element of that name. */
const escaped = (name: string, text: string): string => text.replace(new RegExp(`<(?=\\s*/?\\s*${name})`, 'giu'), '< ');

const quoted = (text: string): string => JSON.stringify(text).replaceAll('<', '\\u003c');
