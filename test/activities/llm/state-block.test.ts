import { describe, expect, test } from '@jest/globals';
import { stateText } from '../../../activities/llm/state-block.ts';
import { instruction } from './cards.ts';

const NOTHING = { criteria: [], userMessages: [], plan: null };
const messages = (...texts: readonly string[]) => texts.map((text) => instruction(text));

describe('the state block', () => {
  test('is empty when there is nothing to say', () => {
    expect(stateText([], NOTHING)).toBe('');
  });

  test('has task, criteria, what users said, the plan and notes, in this order (K14)', () => {
    const plan = { plan: [{ label: 'look' }], progress: 'half', blocked_on: ['ann'] };
    const lines = [
      { kind: 'plan', callId: 'c' },
      { kind: 'steps_left', steps: 2 },
      { kind: 'repeating', tool: 'look', times: 4 },
    ] as const;
    const facts = {
      criteria: ['it is short', 'it is true'],
      userMessages: messages('write\n  a report', 'in French'),
      plan,
    };
    expect(stateText(lines, facts).split('\n')).toEqual([
      'The task: write a report',
      'It is done when:',
      '- it is short',
      '- it is true',
      'Said since by users, the newest last:',
      '- in French',
      'Your plan:',
      '[ ] look',
      'Progress: half',
      'Blocked on: ann',
      '2 steps are left, this one included: come to an end.',
      expect.stringContaining('same call of look 4 times'),
    ]);
  });

  test('keeps the eight newest messages of users; one that was said again moves to the end, a blank one is left out (K14)', () => {
    const said = Array.from({ length: 11 }, (_, index) => `say ${index}`);
    const text = stateText([], { ...NOTHING, userMessages: messages('task', ...said, 'say 4', ' ') });
    const newest = ['say 3', 'say 5', 'say 6', 'say 7', 'say 8', 'say 9', 'say 10', 'say 4'];
    expect(text.split('\n').slice(2)).toEqual(newest.map((line) => `- ${line}`));
  });

  test('shows the beginning of what is long', () => {
    const text = stateText([], { ...NOTHING, userMessages: messages('t'.repeat(9_000), 's'.repeat(9_000)) });
    expect(Buffer.byteLength(text)).toBeLessThan(700);
    expect(text).toContain('…');
  });
});
