/** Figures and words as people read them. */
import { make } from './dom.ts';

/** How the clock of the gateway differs from this one, ms. */
let aheadMs = 0;

/** Takes the time that an answer of the gateway names. */
export function setClock(date: string | null): void {
  const at = date === null ? Number.NaN : Date.parse(date);
  if (!Number.isNaN(at)) aheadMs = at - Date.now();
}

/** A span of time in its two greatest units. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const hours = Math.floor(seconds / 3_600);
  if (hours < 48) return `${hours} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(hours / 24)} days`;
}

const tickers: Readonly<Record<string, (ms: number) => string>> = {
  since: (ms) => `${span(ms)} ago`,
  until: (ms) => (ms >= 0 ? 'over' : `${span(-ms)} left`),
  in: (ms) => (ms >= 0 ? 'now' : `in ${span(-ms)}`),
  for: (ms) => span(ms),
};

/** A time that is shown by how far it is from now, which goes on: `since` it, `until` it, `in` so long, `for` how long since. Epoch ms. */
export const ticking = (kind: 'since' | 'until' | 'in' | 'for', at: number): HTMLTimeElement => {
  const element = make('time', { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString() });
  element.dataset.kind = kind;
  tick(element);
  return element;
};

function tick(element: HTMLTimeElement): void {
  const ms = Date.now() + aheadMs - Date.parse(element.dateTime);
  const text = tickers[element.dataset.kind ?? '']?.(ms) ?? '';
  if (element.textContent !== text) element.textContent = text;
}

setInterval(() => {
  for (const element of document.querySelectorAll<HTMLTimeElement>('time[data-kind]')) tick(element);
}, 1_000);

/** A cost; a dash where it is not known. */
export const money = (cost: number | null): string =>
  cost === null ? '–' : cost === 0 ? '0' : cost.toFixed(cost < 0.01 ? 5 : cost < 1 ? 4 : 2);

/** A whole number with its thousands apart. */
export const count = (value: number): string => value.toLocaleString('en');

/** Any JSON, indented; a text as it is. */
export const pretty = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

/** JSON that a model wrote, indented; as it is where it is none. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A word that says where something stands, in the colour for it. */
export const badge = (word: string): HTMLSpanElement =>
  make('span', { class: 'badge', 'data-status': word }, word.replaceAll('_', ' '));

/** A link to the view of a turn. */
export const turnLink = (agentTurnId: string, text: string): HTMLAnchorElement =>
  make('a', { href: `#/turns/${encodeURIComponent(agentTurnId)}` }, text);

/** A link to the view of a chat. */
export const chatLink = (agentId: string, chatId: string): HTMLAnchorElement =>
  make('a', { href: `#/chats/${encodeURIComponent(agentId)}/${encodeURIComponent(chatId)}`, title: chatId }, chatId);

/** A link to the view of an agent. */
export const agentLink = (agentId: string): HTMLAnchorElement =>
  make('a', { href: `#/agents/${encodeURIComponent(agentId)}`, title: agentId }, agentId);
