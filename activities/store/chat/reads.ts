/** Reading sessions and their messages. */
import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import type { MessagePage, MessageView, SessionPage, SessionView } from '../../../workflows/contract/chat.ts';
import { read, type StoreContext } from '../context.ts';
import { agentInView } from '../reads/border.ts';
import { messageView, selectMessages, selectSessions, sessionView } from './rows.ts';

/** Lists messages of a session in their order. */
export const listMessages = (
  ctx: StoreContext,
  agentId: string,
  { after, limit = 100, last, agentTurnId }: MessagePage = {},
): Promise<readonly MessageView[]> =>
  read(ctx, async (reader) => {
    let query = selectMessages(reader)
      .where('chat_messages.agent_id', '=', agentId)
      .orderBy('chat_messages.seq', last === undefined ? 'asc' : 'desc')
      .limit(last ?? limit);
    if (after !== undefined) query = query.where('chat_messages.seq', '>', after);
    if (agentTurnId !== undefined) query = query.where('chat_messages.agent_turn_id', '=', agentTurnId);
    const views = (await query.execute()).map(messageView);
    return last === undefined ? views : views.reverse();
  });

/** Reads a session by its agent; null when there is none. */
export const getSession = (ctx: StoreContext, agentId: string): Promise<SessionView | null> =>
  read(ctx, async (reader) => {
    const row = await selectSessions(reader).where('chat_sessions.agent_id', '=', agentId).executeTakeFirst();
    return row ? sessionView(row) : null;
  });

/** Lists sessions by their agents. */
export const listSessions = (
  ctx: StoreContext,
  { after, limit = 100, of }: SessionPage = {},
  border: Border = NO_BORDER,
): Promise<readonly SessionView[]> =>
  read(ctx, async (reader) => {
    let query = selectSessions(reader)
      .where(agentInView(border, 'chat_sessions.agent_id'))
      .orderBy('chat_sessions.agent_id')
      .limit(limit);
    if (after !== undefined) query = query.where('chat_sessions.agent_id', '>', after);
    if (of !== undefined) query = query.where('chat_sessions.of_agent', '=', of);
    return (await query.execute()).map(sessionView);
  });
