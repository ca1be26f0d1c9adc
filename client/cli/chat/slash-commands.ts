/** What a person can type in a chat besides messages. */
import { QUEUE_POLICIES, type QueuePolicy } from '../../../workflows/protocol/chat.ts';
import { nearestName } from './choose-agent.ts';

/** The commands of a chat with what they do, as `/help` shows them. */
export const SLASH_COMMANDS = {
  '/stop': 'end the running turn now',
  '/steer': 'TEXT: tell the running turn something before its next step',
  '/queue': '[POLICY]: what waits; what becomes of messages written meanwhile',
  '/status': 'what the chat is at, and what it waits for',
  '/cost': 'tokens and cost of the last turn and of the chat',
  '/agents': 'with whom one can chat, and the chats there are',
  '/help': 'this list',
  '/quit': 'leave; a running turn goes on',
} as const;

/** The name of a command of a chat. */
export type SlashName = keyof typeof SLASH_COMMANDS;

/** What somebody has typed. */
export type Typed =
  | { readonly kind: 'message'; readonly text: string }
  | { readonly kind: 'command'; readonly name: SlashName; readonly rest: string }
  | { readonly kind: 'unknown'; readonly word: string; readonly meant: SlashName | undefined };

const NAMES = Object.keys(SLASH_COMMANDS) as readonly SlashName[];
const isName = (word: string): word is SlashName => Object.hasOwn(SLASH_COMMANDS, word);

/** Reads what was typed; a message that begins with a slash is typed with two. */
export function typedLine(line: string): Typed {
  if (line.startsWith('//')) return { kind: 'message', text: line.slice(1) };
  const [, word = '', rest = ''] = /^(\/\S*)\s*(.*)$/s.exec(line) ?? [];
  if (word === '') return { kind: 'message', text: line };
  if (isName(word)) return { kind: 'command', name: word, rest: rest.trim() };
  return { kind: 'unknown', word, meant: nearestName(word, NAMES) as SlashName | undefined };
}

/** The policy of that name; undefined for another word. */
export const policyNamed = (word: string): QueuePolicy | undefined => QUEUE_POLICIES.find((policy) => policy === word);

/** The line with its command, or the policy of `/queue`, as far as it is certain. */
export function completedLine(line: string): string {
  const [, before = '', word = ''] = /^(\/queue +|)(\S*)$/.exec(line) ?? [];
  if (before === '' && !word.startsWith('/')) return line;
  const words = before === '' ? NAMES : QUEUE_POLICIES;
  return (
    before +
    commonStart(
      words.filter((each) => each.startsWith(word)),
      word,
    )
  );
}

function commonStart(words: readonly string[], typed: string): string {
  const [first = typed, ...others] = words;
  if (others.length === 0) return first;
  let end = typed.length;
  while (end < first.length && others.every((other) => other[end] === first[end])) end += 1;
  return first.slice(0, end);
}
