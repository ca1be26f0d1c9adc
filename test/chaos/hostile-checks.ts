/** What becomes of turns that were answered in a hostile way, without a count of tokens, or that nobody can run. */

import type { CallView, TurnView } from '../../workflows/contract/views.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import { HOSTILE_CALLS, RULER } from './hostile.ts';
import { HOSTILE_ENDINGS, type Ledger, POISONED_ENDING, type Problem } from './ledger.ts';
import { POISONED } from './poison.ts';
import { hostilePart, isUncounted } from './work.ts';

/** The text that comes in parts. */
const IN_PARTS = 'in many parts';
const LONE_SURROGATE = /\\ud[89a-f][0-9a-f]{2}/;

export const endingOf = ({ status, errorCode }: Pick<TurnView, 'status' | 'errorCode'>): string =>
  errorCode === null ? status : `${status}/${errorCode}`;

/** How a turn must end that nobody ends. */
export function rightEnding({ instruction }: TurnView): string {
  if (instruction.startsWith(POISONED)) return POISONED_ENDING;
  const hostile = hostilePart(instruction);
  return hostile ? HOSTILE_ENDINGS[hostile.kind] : 'success';
}

/** What is wrong with what was kept of a model's answers; counts what was looked at. */
export function badAnswers(ledger: Ledger, view: TurnView): readonly Problem[] {
  if (!isTerminal(view.status)) return [];
  if (view.instruction.startsWith(POISONED)) ledger.count('requests that nobody can run');
  if (view.profile?.includes('hasty')) ledger.count('turns with short watchdogs');
  const { agentId, agentTurnId } = view;
  return [...malformed(view), ...wrongUsage(ledger, view), ...wrongHostile(ledger, view)].map((problem) => ({
    ...problem,
    agentId,
    agentTurnId,
  }));
}

function malformed({ instruction, deliverable, steps }: TurnView): Problem[] {
  const written = JSON.stringify([deliverable, steps.map((step) => step.calls)]);
  if (hostilePart(instruction) === undefined || !LONE_SURROGATE.test(written)) return [];
  return [{ check: 'malformed_text', detail: 'half of a character was kept' }];
}

function wrongUsage(ledger: Ledger, { profile, instruction, usage, steps }: TurnView): Problem[] {
  const hostile = hostilePart(instruction);
  const uncounted = isUncounted(profile);
  const spent = steps.map((step, index) => ({ index, usage: step.usage })).filter((step) => step.usage !== null);
  if (uncounted && spent.length > 0) ledger.count('turns without a count of tokens');
  const mustBeOurs = (index: number) => uncounted || (hostile !== undefined && index === hostile.step);
  const wrong = spent.filter(
    (step) =>
      step.usage !== null &&
      (step.usage.input <= 0 ||
        step.usage.output <= 0 ||
        (mustBeOurs(step.index) && step.usage.estimated !== true) ||
        (!uncounted && !hostile && step.usage.estimated === true)),
  );
  const ours = spent.some((step) => step.usage?.estimated);
  const problems = wrong.map(({ index, usage: said }) => ({
    check: 'wrong_usage',
    detail: `step ${index + 1} of a turn of ${profile}: ${JSON.stringify(said)}`,
  }));
  if (!ours || usage.estimated === true) return problems;
  return [
    ...problems,
    { check: 'wrong_usage', detail: `the sum does not say that some of it is estimated: ${JSON.stringify(usage)}` },
  ];
}

function wrongHostile(ledger: Ledger, view: TurnView): Problem[] {
  const hostile = hostilePart(view.instruction);
  if (!hostile || endingOf(view) !== rightEnding(view)) return [];
  const { kind, step } = hostile;
  ledger.count(`hostile answers (${kind})`);
  const expected = HOSTILE_CALLS[kind] ?? [];
  const found = view.steps[step]?.calls.map(outcomeOf) ?? [];
  const problem = (detail: string): Problem => ({ check: 'hostile_answer', detail: `${kind}: ${detail}` });
  const text = view.deliverable?.text ?? '';
  return [
    ...(HOSTILE_ENDINGS[kind] !== 'success' || found.join() === expected.join()
      ? []
      : [problem(`its calls were ${found.join() || 'none'}`)]),
    ...(kind === 'parts' && text !== IN_PARTS ? [problem(`its text became ${JSON.stringify(text)}`)] : []),
    ...(kind === 'endless' && !text.startsWith(RULER) ? [problem(`its text began ${text.slice(0, 40)}`)] : []),
  ];
}

const outcomeOf = ({ status, error }: CallView): string => (error ? `${status}/${error.code}` : status);
