/**
 * What stands last in a prompt, behind the prefix that providers cache (K14): the task and its criteria, what users said since, the plan,
 * and notes about this one call. Pure.
 */
import type { StateLine } from '../../workflows/kernel/actions.ts';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import { planText } from '../tools/builtin/update-plan.ts';

/** What the lines of the kernel name, and what came with the request. */
export interface StateFacts {
  readonly criteria: readonly string[];
  /** Far behind in the conversation: the task, then messages of users, oldest first. */
  readonly userMessages: readonly Card[];
  /** What the model wrote down last. */
  readonly plan: JsonObject | null;
}

const GOAL_BYTES = 400;
const DIRECTIVE_BYTES = 200;
const DIRECTIVES = 8;

export function stateText(lines: readonly StateLine[], facts: StateFacts): string {
  const [task, ...since] = facts.userMessages.map(textOf);
  const directives = newestDistinct(since);
  return [
    ...(task ? [`The task: ${oneLine(task, GOAL_BYTES)}`] : []),
    ...listed('It is done when:', facts.criteria),
    ...listed(
      'Said since by users, the newest last:',
      directives.map((text) => oneLine(text, DIRECTIVE_BYTES)),
    ),
    ...lines.map((line) => stateLine(line, facts.plan)).filter((text) => text !== ''),
  ].join('\n');
}

const textOf = (card: Card): string => (card.type === 'task.instruction' ? card.content.text.trim() : '');

const oneLine = (text: string, bytes: number): string => clip(text.replace(/\s+/g, ' '), bytes);

const listed = (head: string, items: readonly string[]): readonly string[] =>
  items.length === 0 ? [] : [head, ...items.map((item) => `- ${item}`)];

/** One that was said again counts where it was said last. */
function newestDistinct(texts: readonly string[]): readonly string[] {
  const distinct = new Set<string>();
  for (const text of texts) {
    distinct.delete(text);
    if (text !== '') distinct.add(text);
  }
  return [...distinct].slice(-DIRECTIVES);
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
