/** Journals of sessions in a store of a test's own, and what they come to in another one. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import { sessionPath } from '../../../workers/journal/session-file.ts';
import type { JournalLine, SessionLine } from '../../../workflows/chat/journal.ts';
import type { MessageView } from '../../../workflows/contract/chat.ts';
import type { Store } from '../../../workflows/contract/store.ts';

export const newFolder = (): string => mkdtempSync(join(tmpdir(), 'agentturn-journal-'));

export const journalText = (folder: string, sessionId: string): string =>
  readFileSync(sessionPath(folder, sessionId), 'utf8');

export const checkpointOf = (folder: string, sessionId: string): Record<string, unknown> =>
  JSON.parse(readFileSync(sessionPath(folder, sessionId, 'checkpoints'), 'utf8'));

/** The lines of a journal, all of them whole. */
export function linesOf(folder: string, sessionId: string): (SessionLine | JournalLine)[] {
  const text = journalText(folder, sessionId);
  if (!text.endsWith('\n')) throw new Error(`a line is torn: ${text.slice(-100)}`);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** The journal as the store says it is, in a folder of its own. */
export async function rebuilt(store: Store, agentId: string): Promise<string> {
  const session = await store.getSession(agentId);
  if (!session) throw new Error(`no session ${agentId}`);
  const folder = newFolder();
  await new FolderJournal(folder, store).rebuild(session);
  return journalText(folder, session.sessionId);
}

/** What of a message a journal keeps, with its turn as a number in the order of the messages. */
export async function keptMessages(store: Store, agentId: string): Promise<object[]> {
  const turns: string[] = [];
  const all: MessageView[] = [];
  for (let after = 0; ; after = all.at(-1)?.seq ?? 0) {
    const page = await store.listMessages(agentId, { after, limit: 100 });
    all.push(...page);
    if (page.length < 100) break;
  }
  return all.map(({ agentTurnId, acceptedAt: _, status, ...message }) => {
    if (agentTurnId !== null && status !== 'rejected' && !turns.includes(agentTurnId)) turns.push(agentTurnId);
    return { ...message, status, turn: status === 'rejected' ? null : turns.indexOf(agentTurnId ?? '') };
  });
}

/** What the session remembers that a journal keeps: what was asked and what was delivered. */
export async function keptMemory(store: Store, agentId: string): Promise<string[]> {
  const { outputBoxId } = (await store.getAgent(agentId)) ?? {};
  const cards = await store.readBox(outputBoxId ?? '');
  // One that was cancelled while another was open has its card among those of that one.
  const canceled = await store.listTurns(agentId, { status: 'canceled', limit: 1_000 });
  return cards.flatMap(({ card }) => {
    if (canceled.some(({ agentTurnId }) => agentTurnId === card.agentTurnId)) return [];
    // What a turn was steered by is a part of what it is asked in a session that is restored.
    if (card.type === 'task.instruction') return card.content.text.match(/first|(?:said|secret) \d+/g) ?? [];
    return card.type === 'task.deliverable' ? [`delivered ${JSON.stringify(card.content)}`] : [];
  });
}
