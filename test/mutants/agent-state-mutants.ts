/** Mutants of the rules of agents between their turns. */
import type { Mutant } from './mutant.ts';

const PURE = 'test/workflows/agent-state';

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
    find: `if (lastEnd && FAILED.has(lastEnd.status))`,
    replace: `if (lastEnd && FAILED.has(lastEnd.status) && facts.workItems.length === 0)`,
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
];
