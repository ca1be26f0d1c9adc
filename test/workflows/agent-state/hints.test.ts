import { expect, test } from '@jest/globals';
import { type HintFacts, operatorHint } from '../../../workflows/agent-state/hints.ts';

const closure = (outcome: 'completed' | 'continuable' | 'failed' | 'waiting', more: object = {}) =>
  ({ outcome, runtimePosture: 'sleeping', evidence: [], ...more }) as HintFacts['closure'];

test.each<[string, Partial<HintFacts>, string | null]>([
  ['is stopped', { status: 'stopped', closure: closure('failed') }, 'agentturn agents start bo'],
  ['has a turn open', { closure: null }, null],
  ['is done', { closure: closure('completed') }, null],
  ['failed', { closure: closure('failed') }, 'is not tried again by itself'],
  [
    'waits for a person',
    { closure: closure('waiting', { waitingReason: 'awaiting_operator_input' }) },
    'waits for a person',
  ],
  ['waits for something else', { closure: closure('waiting', { waitingReason: 'awaiting_timer' }) }, null],
  [
    'has made its last turn by itself',
    { closure: closure('continuable'), autonomousTurns: 3 },
    'has made 3 turns by itself',
  ],
  [
    'has made the only turn by itself',
    { closure: closure('continuable'), autonomousTurns: 1, maxAutonomousTurns: 1 },
    'has made 1 turn by itself',
  ],
  [
    'was woken as often as it may be, and has something kept',
    { closure: closure('completed'), kept: 1, autonomousTurns: 3 },
    'has made 3 turns by itself',
  ],
  ['was woken as often as it may be', { closure: closure('completed'), autonomousTurns: 3 }, null],
  ['can go on', { closure: closure('continuable') }, 'goes on when its work changes'],
  ['has a profile that nobody knows', { closure: closure('continuable'), maxAutonomousTurns: null }, 'goes on when'],
])('an operator is told what to do about an agent that %s (A3, A5)', (_, facts, expected) => {
  const hint = operatorHint({
    agentId: 'bo',
    status: 'asleep',
    closure: null,
    kept: 0,
    autonomousTurns: 0,
    maxAutonomousTurns: 3,
    ...facts,
  });
  if (expected === null) expect(hint).toBeNull();
  else expect(hint).toContain(expected);
});
