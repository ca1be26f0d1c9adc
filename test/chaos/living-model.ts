/**
 * What the model of a chaos run says for agents that live on between their turns. `[life 3]` makes three pieces of work; whatever comes
 * afterwards makes it complete one of them, or wait first. The same conversation always gets the same answer.
 */
import { type ChatMessage, textOf } from '../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';

export const LIVING_PROFILE = 'chaos-living';

/** A request for so many pieces of work; 0 asks to go on. */
export const lifeOf = (pieces: number, label: string): string => `[life ${pieces}] ${label}`;

const LIFE = /^\[life (\d+)\]/;
/** How instructions of turns begin that an agent makes by itself. */
const OWN = /^(?:You can go on|Something has happened|A time has come|A person has|A delegated turn|The system wakes)/;
const ITEM = /work item (work_[0-9a-f]{16}) can be gone on with/;

/** Longer than a fault lasts, and short enough to come while a run drains. */
const DEADLINE_S = 20;

type Call = { readonly name: string; readonly arguments: object };

/** The next answer of a living agent; undefined for a conversation of another kind. */
export function livingAnswer(messages: readonly ChatMessage[]): ModelAnswer | undefined {
  const start = messages.findLastIndex(({ role }) => role === 'user');
  const last = messages[start];
  const said = last ? textOf(last) : '';
  const [, pieces] = LIFE.exec(said) ?? [];
  if (pieces === undefined && !OWN.test(said)) return undefined;
  const rest = messages.slice(start + 1);
  const position = rest.filter(({ role }) => role === 'assistant').length;
  const item = ITEM.exec(said)?.[1];
  if (position === 0) {
    if (Number(pieces ?? 0) > 0) return calls(...creations(Number(pieces)));
    return item ? calls(firstMove(item)) : calls({ name: 'list_work_items', arguments: {} });
  }
  const listed = position === 1 && item === undefined ? firstListed(rest) : undefined;
  if (listed) return calls({ name: 'complete_work_item', arguments: { work_item_id: listed } });
  return { kind: 'message', content: 'Done with it.' };
}

const calls = (...toolCalls: readonly Call[]): ModelAnswer => ({ kind: 'message', toolCalls: [...toolCalls] });

const creations = (pieces: number): Call[] =>
  Array.from({ length: pieces }, (_, index) => ({
    name: 'create_work_item',
    arguments: { objective: `piece ${index}` },
  }));

/** By the last digit of its id, a piece of work is completed at once, or waited with first. */
function firstMove(item: string): Call {
  const digit = Number.parseInt(item.at(-1) ?? '0', 16);
  if (digit < 5) return { name: 'complete_work_item', arguments: { work_item_id: item } };
  const wait = { work_item_id: item, reason: 'chaos', deadline_seconds: DEADLINE_S };
  if (digit < 10) return { name: 'wait_for', arguments: { ...wait, wake: 'external' } };
  if (digit < 13) return { name: 'wait_for', arguments: { ...wait, wake: 'timer', recheck_after_seconds: 10 } };
  return { name: 'wait_for', arguments: { ...wait, wake: 'operator_input' } };
}

function firstListed(messages: readonly ChatMessage[]): string | undefined {
  const result = messages.findLast(({ role }) => role === 'tool');
  return /"work_item_id":"(work_[0-9a-f]{16})"/.exec(result ? textOf(result) : '')?.[1];
}
