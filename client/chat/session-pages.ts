/** All sessions, read page by page. */
import type { ChatStore, SessionPage, SessionView } from '../../workflows/contract/chat.ts';

const PAGE = 200;

/** Yields the sessions by their agents; a page is read when it is wanted. */
export async function* everySession(
  store: Pick<ChatStore, 'listSessions'>,
  filter: Omit<SessionPage, 'after' | 'limit'>,
): AsyncGenerator<SessionView, void> {
  let page: SessionPage = { ...filter, limit: PAGE };
  for (;;) {
    const sessions = await store.listSessions(page);
    yield* sessions;
    const last = sessions.at(-1);
    if (!last || sessions.length < PAGE) return;
    page = { ...page, after: last.agentId };
  }
}
