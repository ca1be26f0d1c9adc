import { describe, expect, test } from '@jest/globals';
import {
  agentWorkflowId,
  isUserId,
  TOOL_NAME_PATTERN,
  targetQueue,
  turnWorkflowId,
  WORKER_TARGET_PATTERN,
} from '../../../workflows/protocol/ids.ts';

describe('an id that a user makes', () => {
  test.each(['a', '7', 'alice', 'A.b_c~d-9', 'x'.repeat(128)])('may be %s', (id) => {
    expect(isUserId(id)).toBe(true);
  });

  test.each(['', '.hidden', '-x', 'a b', 'a/b', 'ä', 'a\n', 'x'.repeat(129), 7, null, undefined])(
    'may not be %j',
    (id) => {
      expect(isUserId(id)).toBe(false);
    },
  );
});

describe('names on the Temporal side', () => {
  test('put a turn below its agent, so that one prefix finds both', () => {
    expect(agentWorkflowId('alice')).toBe('agents/alice');
    expect(turnWorkflowId('alice', 't1')).toBe('agents/alice/turns/t1');
  });

  test('give each worker target a task queue of its own (W2)', () => {
    expect(targetQueue('worker_generic')).toBe('agentturn.worker_generic');
  });

  test.each(['a.b', '*', '>', 'a b', 'UPPER', '', 'x'.repeat(65), 'a\n'])(
    'refuse %j as a worker target (W2)',
    (name) => {
      expect(WORKER_TARGET_PATTERN.test(name)).toBe(false);
    },
  );

  test.each(['a.b', 'a b', '', 'x'.repeat(65), 'ä', 'a\n'])('refuse %j as the name of a tool', (name) => {
    expect(TOOL_NAME_PATTERN.test(name)).toBe(false);
  });
});
