/** Mutants of the rules of agents between their turns. */
import type { Mutant } from './mutant.ts';

const PURE = 'test/workflows/agent-state';
const STORE = 'test/activities/store/sqlite/open.test.ts';

export const AGENT_STATE_MUTANTS: readonly Mutant[] = [
  {
    rule: 'A1',
    breaks: 'a stopped agent is woken by what comes for it',
    file: 'workflows/agent-state/status.ts',
    find: `stopped: { wake: 'stopped',`,
    replace: `stopped: { wake: 'awake_idle',`,
    test: `${PURE}/status.test.ts`,
  },
  {
    rule: 'A2',
    breaks: 'an agent that waits is shown so although it has work to go on with',
    file: 'workflows/agent-state/posture.ts',
    find: `  if (runnable)
    return {`,
    replace: `  if (runnable && waits.length === 0)
    return {`,
    test: `${PURE}/posture.test.ts`,
  },
  {
    rule: 'A3',
    breaks: 'a failed turn with work left goes on by itself',
    file: 'workflows/agent-state/closure.ts',
    find: `if (lastEnd && hasFailed(lastEnd.status))`,
    replace: `if (lastEnd && hasFailed(lastEnd.status) && facts.workItems.length === 0)`,
    test: `${PURE}/closure.test.ts`,
  },
  {
    rule: 'A4',
    breaks: 'an empty event costs a model call',
    file: 'workflows/agent-state/continuation.ts',
    find: `if (!saysSomething) return 'liveness_only';`,
    replace: `if (!saysSomething && isWaiting) return 'liveness_only';`,
    test: `${PURE}/continuation.test.ts`,
  },
  {
    rule: 'A5',
    breaks: 'the summary leaves out what the open turn has spent',
    file: 'activities/store/reads/agent-summary.ts',
    find: `return { usage: addUsage(ended, open), cost };`,
    replace: `return { usage: ended, cost };`,
    test: STORE,
  },
  {
    rule: 'A6',
    breaks: 'the times of a stopped agent still come',
    file: 'activities/store/turns/control.ts',
    find: `if (isNew && head.has_work === 1) await setDueTimes(tx, agentId, lifecycle);`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A7',
    breaks: 'what a step has changed that was taken back counts',
    file: 'activities/store/agents/effects.ts',
    find: `.where('box_cards.hidden_reason', '=', 'rolled_back')`,
    replace: `.where('box_cards.hidden_reason', '=', 'summarised')`,
    test: STORE,
  },
  {
    rule: 'A8',
    breaks: 'a wait for a turn that has ended meanwhile does not notice',
    file: 'activities/store/agents/effects.ts',
    find: `if (ended) ({ head: held } = await keep(tx, held, ended));`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A9',
    breaks: 'of what comes for a busy agent from one source only the last is told',
    file: 'activities/store/agents/came.ts',
    find: `isSent(came) || head.came === 0 ? undefined`,
    replace: `head.came === 0 ? undefined`,
    test: STORE,
  },
  {
    rule: 'A9',
    breaks: 'what does not fit into one turn is forgotten',
    file: 'activities/store/agents/came.ts',
    find: `.where('place', '<=', last.place)
    .where('taken_by', 'is', null)
    .execute();
  await updateHead`,
    replace: `.where('taken_by', 'is', null)
    .execute();
  await updateHead`,
    test: STORE,
  },
  {
    rule: 'A10',
    breaks: 'turns that a time makes count nothing, and go on for ever',
    file: 'activities/store/agents/own-turns.ts',
    find: `if (isFromOutside(came)) return head;`,
    replace: `if (came.length > 0) return head;`,
    test: STORE,
  },
  {
    rule: 'A10',
    breaks: 'an agent goes on with work that did not change',
    file: 'activities/store/agents/own-turns.ts',
    find: `.whereRef('continued_revision', '<', 'revision')`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A11',
    breaks: 'the end of a delegated turn does not wake the agent that waits for it',
    file: 'activities/store/turns/terminal.ts',
    find: `if (turn.parent_agent_turn_id !== null) await wakeWaiters(tx, agentTurnId);`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A12',
    breaks: 'a wait that is over stays due',
    file: 'activities/store/agents/work.ts',
    find: `.set({ status, due_at: null, ended_at: tx.at, ended_by: by })`,
    replace: `.set({ status, ended_at: tx.at, ended_by: by })`,
    test: STORE,
  },
];
