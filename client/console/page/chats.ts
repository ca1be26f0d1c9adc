/** The chats: all of them, or those with one agent, and a form that begins one. */
import type { SessionView } from '../../../workflows/contract/chat.ts';
import { Children, facts, fill, make } from './dom.ts';
import { agentLink, chatLink, count, ticking } from './format.ts';
import type { GatewayCalls } from './gateway.ts';
import { rowTable } from './overview.ts';
import { type PageView, poll } from './view.ts';

const POLL_MS = 3_000;

function sessionRow({ of, chatId, profile }: SessionView) {
  const messages = make('td', { class: 'number' });
  const last = make('td');
  const element = make(
    'tr',
    {},
    make('td', { class: 'wide' }, chatLink(of, chatId)),
    make('td', { class: 'wide' }, agentLink(of)),
    messages,
    last,
    make('td', { class: 'cut' }, profile ?? '–'),
  );
  let seq = 0;
  const update = ({ lastSeq, updatedAt }: SessionView) => {
    if (lastSeq === seq) return;
    seq = lastSeq;
    fill(messages, count(lastSeq));
    fill(last, ticking('since', updatedAt));
  };
  return { element, update };
}

function beginForm(agentId: string): HTMLFormElement {
  const field = (id: string, label: string, value: string) => {
    const input = make('input', {
      ...{ id, type: 'text', required: '', autocomplete: 'off' },
      ...{ pattern: '[A-Za-z0-9][A-Za-z0-9._~\\-]*', title: 'letters, digits and . _ ~ -' },
    });
    input.value = value;
    return { input, shown: [make('label', { for: id }, label), input] };
  };
  const agent = field('with', 'An agent, or the name of a profile', agentId);
  const chat = field('chat', 'A name for the chat', `chat-${Date.now().toString(36)}`);
  const submit = (event: Event) => {
    event.preventDefault();
    location.hash = `#/chats/${agent.input.value}/${chat.input.value}`;
  };
  return make('form', { submit }, ...agent.shown, ...chat.shown, make('button', {}, 'Begin a chat'));
}

/** The view of all chats; of those with one agent where one is named. */
export function chatsView(calls: GatewayCalls, agentId: string): PageView {
  const sessions = rowTable('Chats', ['Chat', 'Agent', 'Messages', 'Last', 'Profile']);
  const rows = new Children<SessionView>(sessions.body, (session) => session.agentId, sessionRow);
  const note = facts();
  const refresh = poll(POLL_MS, async (signal) => {
    const of = agentId === '' ? '' : `&agentId=${encodeURIComponent(agentId)}`;
    const { items, next } = await calls.get<{ readonly items: readonly SessionView[]; readonly next: string | null }>(
      `chats?limit=200${of}`,
      signal,
    );
    rows.show(items);
    fill(note, items.length === 0 ? 'No chat was begun yet.' : next === null ? '' : 'The first 200 chats are shown.');
  });
  const title = agentId === '' ? 'Chats' : `Chats with ${agentId}`;
  const element = make(
    'div',
    {},
    make('h2', {}, title),
    sessions.element,
    note,
    calls.may('write') ? beginForm(agentId) : null,
  );
  return { title, element, close: refresh.close, failed: refresh.failed };
}
