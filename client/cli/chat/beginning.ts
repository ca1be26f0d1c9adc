/** Where a reader of a session begins. */
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import type { ChatHandle } from '../../chat/api.ts';
import { sessionCursor } from '../../chat/session-stream.ts';
import type { ClientApi } from '../../client-api.ts';

/** Among how many of its last turns the open one is looked for. */
const LAST_TURNS = 20;

/**
 * The cursor of a reader who wants what is open and all that follows, and so many of the turns that ended last before. Errors: those of the
 * client.
 */
export async function cursorToBegin(
  client: Pick<ClientApi, 'turn'>,
  { agent }: Pick<ChatHandle, 'agent'>,
  endedTurns: number,
): Promise<string> {
  const turns = await agent.turns({ last: LAST_TURNS });
  const open = turns.findIndex(({ status }) => !isTerminal(status));
  const first = turns[Math.max(0, (open === -1 ? turns.length : open) - endedTurns)];
  if (!first) return sessionCursor((await agent.get())?.agent.eventSeq ?? 0);
  for await (const { seq } of client.turn(first.agentTurnId).events()) return sessionCursor(seq - 1);
  return sessionCursor(0);
}
