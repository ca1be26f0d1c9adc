/** One chat, live: its messages with what became of them, the turns that answer them, questions in between, and a form to write in. */
import type { MessageView } from '../../../workflows/contract/chat.ts';
import type { InboxEntry } from '../../../workflows/contract/lists.ts';
import type { StreamPart } from '../../stream-parts.ts';
import { Children, facts, fill, make } from './dom.ts';
import { agentLink, badge, pretty, ticking, turnLink } from './format.ts';
import type { GatewayCalls } from './gateway.ts';
import { type Question, questionForm, questionKey } from './questions.ts';
import { Steps } from './steps.ts';
import { act, atBottom, type PageView, poll } from './view.ts';

const POLL_MS = 2_000;
/** The last messages that are shown. */
const MESSAGES = 50;

interface Items<Item> {
  readonly items: readonly Item[];
}

/** How a turn has ended that did not complete. */
interface BadEnd {
  readonly status: 'failed' | 'denied';
  readonly failure: { readonly code: string; readonly reason: string; readonly nextAction: string };
}

/** The messages of one turn; a message that was rejected is of none. */
interface Exchange {
  readonly key: string;
  readonly agentTurnId: string | null;
  readonly messages: readonly MessageView[];
}

/** Messages by the turn that has them, in the order of the first of each. */
function exchangesOf(messages: readonly MessageView[]): readonly Exchange[] {
  const groups = Map.groupBy(messages, ({ agentTurnId, eventId }) => agentTurnId ?? `rejected ${eventId}`);
  return [...groups].map(([key, of]) => ({ key, agentTurnId: of[0]?.agentTurnId ?? null, messages: of }));
}

/** Whether the turn of the exchange has begun: until then it has nothing to show. */
const isBegun = ({ messages }: Exchange): boolean =>
  messages.some(({ status }) => status !== 'queued' && status !== 'collected');

function messageElement({ sender, payload, policy, acceptedAt, seq }: MessageView) {
  const status = make('span');
  const { text, attachments = [] } = payload;
  const element = make(
    'li',
    { 'data-seq': String(seq) },
    facts(
      ...[make('strong', {}, sender.agentId), sender.instanceId ? ` (${sender.instanceId})` : null],
      ...[' · ', ticking('since', acceptedAt), ` · ${policy} `, status],
    ),
    make('p', { class: 'text' }, text),
    ...attachments.map((each) => make('details', {}, make('summary', {}, each.name), make('pre', {}, each.text))),
  );
  const update = (now: MessageView) => {
    if (status.textContent?.startsWith(now.status)) return;
    fill(status, badge(now.status), now.reason === null ? null : ` ${now.reason}`);
  };
  return { element, update };
}

/** What an ended turn came to. */
async function endOf(calls: GatewayCalls, path: string, part: Extract<StreamPart, { type: 'end' }>) {
  const { text, fields } = part.deliverable;
  const said = text === undefined && fields ? Object.fromEntries(fields.map(({ name, value }) => [name, value])) : null;
  const delivered = said === null ? null : make('pre', {}, pretty(said));
  if (part.status === 'success') return [facts(badge('completed')), delivered];
  const { status, failure } = (await calls.get<{ readonly terminal: BadEnd }>(path)).terminal;
  return [
    facts(badge(status), ' ', make('code', {}, failure.code), ` ${failure.reason}`),
    make('p', {}, failure.nextAction),
    delivered,
  ];
}

/** Messages on the page, and what the turn that has them does. */
class ExchangeElement {
  readonly element: HTMLElement;
  readonly #calls: GatewayCalls;
  readonly #path: string;
  readonly #messages: Children<MessageView>;
  readonly #steps = new Steps();
  readonly #end = make('div');
  isFollowed = false;

  constructor(calls: GatewayCalls, { agentTurnId }: Exchange) {
    this.#calls = calls;
    this.#path = `turns/${encodeURIComponent(agentTurnId ?? '')}`;
    const list = make('ol', { class: 'items' });
    this.#messages = new Children(list, ({ eventId }) => eventId, messageElement);
    const turn = agentTurnId === null ? null : facts(turnLink(agentTurnId, 'Its turn'));
    this.element = make('div', { class: 'exchange' }, list, this.#steps.element, this.#end, turn);
  }

  update({ messages }: Exchange): void {
    this.#messages.show(messages);
  }

  /** Shows the turn up to its end; `news` is called with what may have changed more than is shown here. */
  async follow(signal: AbortSignal, lost: (isLost: boolean) => void, news: () => void): Promise<void> {
    this.isFollowed = true;
    for await (const part of this.#calls.events<StreamPart>(`${this.#path}/stream`, signal, lost)) {
      atBottom(() => this.#steps.take(part));
      if (part.type === 'end') fill(this.#end, ...(await endOf(this.#calls, this.#path, part)));
      if (part.type !== 'text' && part.type !== 'reasoning' && part.type !== 'call_delta') news();
    }
  }
}

const POLICIES: readonly (readonly [string, string])[] = [
  ['', 'as the profile says'],
  ['collect', 'collect: wait for its end, together'],
  ['steer', 'steer: tell it before its next step'],
  ['interrupt', 'interrupt: end it'],
  ['rollback', 'rollback: end it, as if it had not been'],
  ['reject', 'reject: do not wait'],
];

/** The form that a message is written in. */
function messageForm(calls: GatewayCalls, agentId: string, chatId: string, sent: () => void): HTMLFormElement {
  const text = make('textarea', { id: 'message', rows: '3', required: '' });
  const policy = make(
    'select',
    { id: 'policy' },
    ...POLICIES.map(([value, words]) => make('option', { value }, words)),
  );
  const said = make('p', { class: 'said', role: 'status' });
  let tried = { text: '', eventId: '' };
  let isSending = false;
  const send = async () => {
    // What failed is sent again under its id, and counts once.
    if (tried.text !== text.value)
      tried = { text: text.value, eventId: `console-${Date.now()}-${Math.random().toString(36).slice(2)}` };
    const body = { chatId, eventId: tried.eventId, payload: { text: tried.text } };
    const { message } = await calls.post<{ readonly message: MessageView }>(
      `agents/${encodeURIComponent(agentId)}/messages`,
      policy.value === '' ? body : { ...body, policy: policy.value },
    );
    tried = { text: '', eventId: '' };
    text.value = '';
    sent();
    return message.status === 'rejected' ? `Rejected: ${message.reason ?? ''}` : '';
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    // What is pressed twice is sent once.
    if (isSending) return;
    isSending = true;
    await act(said, send);
    isSending = false;
  };
  const form = make(
    'form',
    { submit: (event) => void submit(event) },
    make('label', { for: 'message' }, 'Your message (Enter sends, Shift+Enter begins a line)'),
    text,
    make('label', { for: 'policy' }, 'While a turn is open'),
    policy,
    make('div', { class: 'buttons' }, make('button', {}, 'Send')),
    said,
  );
  text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return form;
}

/** The buttons that end the turn that is open. */
function turnButtons(calls: GatewayCalls, changed: () => void) {
  let open: string | null = null;
  const said = make('p', { class: 'said', role: 'status' });
  const end = (name: string) =>
    void act(said, async () => {
      const { ack } = await calls.post<{ readonly ack: string }>(`turns/${encodeURIComponent(open ?? '')}/${name}`, {});
      changed();
      return `The turn: ${ack}.`;
    });
  const button = (text: string, name: string) =>
    make('button', { type: 'button', class: 'danger', click: () => end(name) }, text);
  const all = [button('Stop', 'stop'), button('Interrupt', 'interrupt'), button('Take back', 'rollback')];
  const buttons = make('div', { hidden: '' }, make('div', { class: 'buttons' }, ...all));
  return {
    element: make('div', {}, buttons, said),
    show(agentTurnId: string | null) {
      open = agentTurnId;
      buttons.hidden = open === null;
    },
  };
}

/** The view of a chat. */
export function chatView(calls: GatewayCalls, agentId: string, chatId: string): PageView {
  const session = `${agentId}~${chatId}`;
  const path = `agents/${encodeURIComponent(agentId)}/chats/${encodeURIComponent(chatId)}`;
  const none = facts();
  const log = make('div', { role: 'log', 'aria-label': 'Conversation' });
  const waiting = make('div', { class: 'questions' });
  const shown = new Map<string, ExchangeElement>();
  const exchanges = new Children<Exchange>(
    log,
    ({ key }) => key,
    (exchange) => {
      const made = new ExchangeElement(calls, exchange);
      shown.set(exchange.key, made);
      return made;
    },
  );
  const questions = new Children<Question>(waiting, questionKey, (question) =>
    questionForm(calls, question, () => refresh.now()),
  );
  const write = calls.may('write') ? messageForm(calls, agentId, chatId, () => refresh.now()) : null;
  const buttons = calls.may('write') ? turnButtons(calls, () => refresh.now()) : null;
  const gone = new AbortController();
  let listener: (error: unknown) => void = () => {};
  let isFollowing = false;
  const refresh = poll(POLL_MS, async (signal) => {
    const [messages, inbox] = await Promise.all([
      calls.get<Items<MessageView>>(`${path}/messages?last=${MESSAGES}`, signal),
      calls.get<Items<InboxEntry>>(`inbox?agentId=${encodeURIComponent(session)}&limit=50`, signal),
    ]);
    fill(none, messages.items.length === 0 ? 'Nothing was said yet.' : '');
    const groups = exchangesOf(messages.items);
    atBottom(() => exchanges.show(groups));
    questions.show(inbox.items);
    buttons?.show(messages.items.find(({ status }) => status === 'processing')?.agentTurnId ?? null);
    if (!isFollowing) follow(groups).catch((error: unknown) => listener(error));
  });
  /** The turns of a session come one after the other: so they are followed. */
  const follow = async (groups: readonly Exchange[]) => {
    isFollowing = true;
    let isNews = false;
    const lost = (isLost: boolean) => listener(isLost ? new Error('the stream broke; it is opened again') : null);
    try {
      for (const exchange of groups) {
        const element = shown.get(exchange.key);
        if (exchange.agentTurnId === null || !isBegun(exchange) || !element || element.isFollowed) continue;
        await element.follow(gone.signal, lost, () => refresh.now());
        isNews = true;
      }
    } finally {
      isFollowing = false;
    }
    if (isNews) refresh.now();
  };
  const element = make(
    'div',
    { class: 'turn' },
    make('h2', {}, `Chat ${chatId}`),
    facts('with ', agentLink(agentId), ' · its session is the agent ', agentLink(session)),
    ...[none, log, waiting, buttons?.element ?? null, write],
  );
  return {
    title: `Chat ${chatId}`,
    element,
    close() {
      gone.abort();
      refresh.close();
    },
    failed(callback) {
      listener = callback;
      refresh.failed(callback);
    },
  };
}
