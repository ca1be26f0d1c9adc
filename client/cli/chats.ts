/** `chats ls` and `chats messages`: the chats of the store, and what was said in one. */
import type { MessageView, SessionView } from '../../workflows/contract/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { sessionAgentId } from '../../workflows/protocol/ids.ts';
import { commandLine } from '../command-line.ts';
import { type CliEnvironment, PAGE, type PageOptions, tellMore } from './environment.ts';
import { shortened, table, time } from './format.ts';

const TEXT_CHARACTERS = 80;

/** The options of `chats ls`. */
export interface ChatListOptions extends PageOptions {
  /** Only chats with this agent. */
  readonly agent?: string;
}

/** `chats ls`: a page of chats, by their agents. Resolves with the exit code. */
export async function printChats({ io, openStore }: CliEnvironment, options: ChatListOptions): Promise<number> {
  const { agent, after, limit = PAGE, json, ...more } = options;
  const store = await openStore(more);
  try {
    const found = await store.listSessions({
      ...(agent === undefined ? {} : { of: agent }),
      ...(after === undefined ? {} : { after }),
      limit: limit + 1,
    });
    const chats = found.slice(0, limit);
    const next = found.length > limit ? (chats.at(-1)?.agentId ?? null) : null;
    if (json) io.out(JSON.stringify({ items: chats, next }));
    else if (chats.length === 0) io.out(after === undefined ? nothing(agent) : 'no more');
    else for (const line of table(chatRows(chats))) io.out(line);
    if (!json) tellMore(io, `chats ls${agent === undefined ? '' : ` --agent ${agent}`} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

const nothing = (agent: string | undefined): string =>
  `no chats${agent === undefined ? '' : ` with ${agent}`} yet: begin one with ${commandLine(`chat ${agent ?? 'AGENT'}`)}`;

const chatRows = (chats: readonly SessionView[]): string[][] => [
  ['AGENT', 'CHAT', 'PROFILE', 'MESSAGES', 'LAST MESSAGE', 'SESSION'],
  ...chats.map(({ of, chatId, profile, lastSeq, updatedAt, sessionId }) => [
    of,
    chatId,
    profile ?? '(by its name)',
    String(lastSeq),
    time(updatedAt),
    sessionId,
  ]),
];

/** `chats messages`: a page of what was said, each message with how far it is. Resolves with the exit code. Errors: `agent_not_found`, `invalid_request`. */
export async function printMessages(
  { io, openStore }: CliEnvironment,
  agent: string,
  chatId: string,
  options: PageOptions,
): Promise<number> {
  const { after, limit = PAGE, json, ...more } = options;
  const store = await openStore(more);
  try {
    const agentId = sessionAgentId(agent, chatId);
    if (!(await store.getSession(agentId))) throw noChat(agent, chatId);
    const found = await store.listMessages(agentId, { after: placeOf(after), limit: limit + 1 });
    const messages = found.slice(0, limit);
    const next = found.length > limit ? String(messages.at(-1)?.seq) : null;
    if (json) io.out(JSON.stringify({ items: messages, next }));
    else if (messages.length === 0) io.out('no more');
    else for (const line of table(messageRows(messages))) io.out(line);
    if (!json) tellMore(io, `chats messages ${agent} ${chatId} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

const noChat = (agent: string, chatId: string): CodedError =>
  new CodedError('agent_not_found', `there is no chat ${chatId} with ${agent} in this store`, {
    cure: `"${commandLine('chats ls')}" lists those there are.`,
  });

/** The place behind which a page begins. Errors: `invalid_request`. */
function placeOf(after: string | undefined): number {
  if (after === undefined) return 0;
  const seq = Number(after);
  if (/^\d+$/.test(after) && Number.isSafeInteger(seq)) return seq;
  throw new CodedError('invalid_request', '--after takes what the page before has said, the number of a message');
}

const messageRows = (messages: readonly MessageView[]): string[][] => [
  ['NO', 'ACCEPTED', 'FROM', 'STATUS', 'POLICY', 'TURN', 'TEXT, OR WHY IT WAS REJECTED'],
  ...messages.map(({ seq, acceptedAt, sender, status, policy, agentTurnId, payload, reason }) => [
    String(seq),
    time(acceptedAt),
    sender.agentId,
    status,
    policy,
    agentTurnId ?? '-',
    shortened(reason ?? payload.text, TEXT_CHARACTERS),
  ]),
];
