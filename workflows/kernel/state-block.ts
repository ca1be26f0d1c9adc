/** What each prompt ends with, behind the conversation and outside the prefix that providers cache (K10, K12, K14). Pure. */
import type { StateLine } from './actions.ts';
import type { BudgetState } from './budgets.ts';
import type { Progress } from './checkpoint.ts';
import type { ViewState } from './context.ts';
import { type FuseState, repeatedCalls } from './fuse.ts';
import { userMessages } from './handles.ts';

/** The model is told how many steps are left from this number on, the one that is asked for included (K10). */
const STEPS_LEFT_SAID = 2;

/** Messages of users are repeated once this many cards have come behind them (K14). */
const FAR = 10;

/** The newest messages that are repeated. The rendering shows eight at most; twice as many are named because some may say the same. */
const MOST_MESSAGES = 16;

type Reads = BudgetState & FuseState & ViewState & Pick<Progress, 'planCall'>;

/** The lines for the model call whose step has just been counted. The final report needs neither warnings nor a count of steps. */
export function stateLines(state: Reads, isReport: boolean): readonly StateLine[] {
  const kept = [...messageLines(state), ...planLines(state)];
  return isReport ? kept : [...kept, ...stepLines(state), ...repetitionLines(state)];
}

function messageLines({ handles, outputBoxId: boxId }: ViewState): readonly StateLine[] {
  const near = handles[handles.length - FAR]?.[0] ?? 0;
  const seqs = userMessages(handles, MOST_MESSAGES).filter((seq) => seq < near);
  return seqs.length === 0 ? [] : [{ kind: 'user_messages', boxId, seqs }];
}

const planLines = ({ planCall: callId }: Pick<Progress, 'planCall'>): readonly StateLine[] =>
  callId === null ? [] : [{ kind: 'plan', callId }];

function stepLines({ budgets, stepIndex }: BudgetState): readonly StateLine[] {
  const steps = budgets.maxSteps - stepIndex + 1;
  return steps <= STEPS_LEFT_SAID ? [{ kind: 'steps_left', steps }] : [];
}

const repetitionLines = ({ streaks }: FuseState): readonly StateLine[] =>
  repeatedCalls(streaks).map((call) => ({ kind: 'repeating', ...call }));
