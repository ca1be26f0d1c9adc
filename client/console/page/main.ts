/** The page: who is signed in, which view is shown, whether the gateway answers. */
import { agentView } from './agent.ts';
import { chatView } from './chat.ts';
import { chatsView } from './chats.ts';
import { fill, make, messageOf } from './dom.ts';
import { type CallerFacts, GatewayCalls, RefusedError } from './gateway.ts';
import { overview } from './overview.ts';
import { turnView } from './turn.ts';
import type { PageView } from './view.ts';

const KEY = 'agentturn-token';

const main = byId('main');
const account = byId('account');
const problem = byId('problem');
let calls: GatewayCalls | null = null;
let view: PageView | null = null;

function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element) return element;
  throw new Error(`the page has no element ${id}`);
}

/** The token of a link such as `#token=…`, which is taken out of the address; else the one that this tab, or this browser, keeps. */
function keptToken(): string | null {
  const [, linked] = /^#token=(.+)$/.exec(location.hash) ?? [];
  if (linked === undefined) return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  const token = decodeURIComponent(linked);
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, '', '#/');
  return token;
}

function signOut(said = ''): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
  calls = null;
  show(null);
  fill(account, '');
  fill(problem, '');
  const token = make('input', { id: 'token', type: 'password', required: '', autocomplete: 'current-password' });
  const keep = make('input', { id: 'keep', type: 'checkbox' });
  const note = make('p', { class: 'said', role: 'alert' }, said);
  const submit = (event: Event) => {
    event.preventDefault();
    (keep.checked ? localStorage : sessionStorage).setItem(KEY, token.value.trim());
    void signIn(token.value.trim());
  };
  const form = make(
    'form',
    { class: 'sign-in', submit },
    make('h2', {}, 'Sign in'),
    make('label', { for: 'token' }, 'Token of this gateway, with the scope read'),
    token,
    make('div', {}, keep, ' ', make('label', { for: 'keep' }, 'Keep it in this browser')),
    make('button', {}, 'Sign in'),
    note,
  );
  fill(main, form);
  token.focus();
}

/** Why a token is not taken, as people read it. */
const refused = ({ status, message }: RefusedError): string =>
  status === 401
    ? 'This token is not known here. `dev` prints a new one at each start; elsewhere ask whoever runs the gateway.'
    : message;

async function signIn(token: string): Promise<void> {
  const signedIn = new GatewayCalls(token);
  try {
    signedIn.caller = await signedIn.get<CallerFacts>('caller');
  } catch (error) {
    if (error instanceof RefusedError && error.status >= 400 && error.status < 500) return signOut(refused(error));
    fill(problem, `${messageOf(error)}; trying again`);
    setTimeout(() => void signIn(token), 2_000);
    return;
  }
  calls = signedIn;
  const leave = make('button', { type: 'button', class: 'quiet', click: () => signOut() }, 'Sign out');
  fill(account, `${signedIn.caller.name} (${signedIn.caller.scopes.join(', ')}) `, leave);
  route();
}

function show(next: PageView | null): void {
  view?.close();
  view = next;
  if (!next) return;
  fill(problem, '');
  next.failed((error) => {
    if (error instanceof RefusedError && error.status === 401) return signOut(refused(error));
    fill(problem, error === null ? '' : messageOf(error));
  });
  document.title = `${next.title} – AgentTurn`;
  fill(main, next.element);
  scrollTo({ top: 0 });
}

/** The views by the beginning of the address behind `#/`. */
const VIEWS: Readonly<Record<string, (calls: GatewayCalls, id: string, chatId: string) => PageView>> = {
  agents: agentView,
  turns: turnView,
  chats: (signedIn, id, chatId) => (chatId === '' ? chatsView(signedIn, id) : chatView(signedIn, id, chatId)),
};

function route(): void {
  if (!calls) return;
  const [, name = '', id = '', chatId = ''] = location.hash.split('/').map(decodeURIComponent);
  const open = id === '' && name !== 'chats' ? undefined : VIEWS[name];
  show(open ? open(calls, id, chatId) : overview(calls));
}

addEventListener('hashchange', () => {
  if (location.hash.startsWith('#token=')) start();
  else route();
});

function start(): void {
  const token = keptToken();
  if (token === null) signOut();
  else void signIn(token);
}

start();
