/**
 * What stands last in a prompt, behind the prefix that providers cache (K14): the task and its criteria, what users said since, the plan,
 * and lines about this one call. Pure.
 */
import type { StateLine } from '../../workflows/kernel/actions.ts';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import { planText } from '../tools/builtin/update-plan.ts';

/** The texts behind the lines of the kernel, and what came with the request. */
export interface StateFacts {
  /** By which the request says that it is done. */
  readonly criteria: readonly string[];
  /** The task, then messages of users, oldest first, as far as they lie far behind in the conversation. */
  readonly userMessages: readonly Card[];
  /** Arguments of the call of `update_plan` that wrote the plan; null when there is none. */
  readonly plan: JsonObject | null;
}

/** Bytes that are repeated of the task. */
const TASK_BYTES = 400;
/** Bytes that are repeated of one message of a user. */
const MESSAGE_BYTES = 200;
/** Messages of users that are repeated, the newest. */
const MESSAGES = 8;

/** The text that stands last; empty when there is nothing to say. */
export function stateText(lines: readonly StateLine[], facts: StateFacts): string {
  const [task, ...since] = facts.userMessages.map(textOf);
  const messages = newestDistinct(since);
  return [
    ...(task ? [`The task: ${oneLine(task, TASK_BYTES)}`] : []),
    ...listed('It is done when:', facts.criteria),
    ...listed(
      'Said since by users, the newest last:',
      messages.map((text) => oneLine(text, MESSAGE_BYTES)),
    ),
    ...lines.map((line) => stateLine(line, facts.plan)).filter((text) => text !== ''),
  ].join('\n');
}

const textOf = (card: Card): string => (card.type === 'task.instruction' ? card.content.text.trim() : '');

const oneLine = (text: string, bytes: number): string => clip(text.replace(/\s+/g, ' '), bytes);

const listed = (head: string, items: readonly string[]): readonly string[] =>
  items.length === 0 ? [] : [head, ...items.map((item) => `- ${item}`)];

/** The newest texts, each once: one that was said again counts where it was said last. */
function newestDistinct(texts: readonly string[]): readonly string[] {
  const distinct = new Set<string>();
  for (const text of texts) {
    distinct.delete(text);
    if (text !== '') distinct.add(text);
  }
  return [...distinct].slice(-MESSAGES);
}

function stateLine(line: StateLine, plan: JsonObject | null): string {
  switch (line.kind) {
    case 'user_messages':
      return '';
    case 'plan':
      return plan === null ? '' : planText(plan);
    case 'steps_left':
      return line.steps === 1
        ? 'This is your last step: finish now.'
        : `${line.steps} steps are left, this one included: come to an end.`;
    case 'repeating':
      return `You have made the same call of ${line.tool} ${line.times} times in a row. Its result will not change: do something else, or report.`;
  }
}
