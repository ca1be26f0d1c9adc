import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { isNotice, type Notice, noticeText } from '../../../workflows/contract/notices.ts';
import type { Observation } from '../../../workflows/kernel/actions.ts';

/** One of each type: the compiler sees to it that none is missing. */
const OBSERVATIONS: { readonly [K in Observation['type']]: Extract<Observation, { type: K }> } = {
  event_ignored: { type: 'event_ignored', event: 'start', lifecycle: 'done', reason: 'r' },
  budget_hit: { type: 'budget_hit', code: 'budget_tokens', used: 12, limit: 10 },
  budgets_changed: { type: 'budgets_changed', budgets: {} },
  reminded: { type: 'reminded', tools: [] },
  tool_gated: { type: 'tool_gated', callId: 'c', tool: 't', decision: 'deny', stage: 's', reason: 'r' },
  approval_answered: { type: 'approval_answered', callId: 'c', decision: 'denied' },
  repeating: { type: 'repeating', tool: 't', times: 3 },
  rolled_back: { type: 'rolled_back', reason: 't failed', cards: 2, inARow: 1 },
  truncated: { type: 'truncated', part: 1 },
  shortened: { type: 'shortened', mode: 'summary', cards: 4, tokens: 900 },
  overflow: { type: 'overflow', time: 1 },
};

test('what people care about is a notice, and each has a text (K4)', () => {
  const notices: readonly Notice[] = Object.values(OBSERVATIONS).filter(isNotice);
  expect(notices.map((notice) => [notice.type, noticeText(notice)])).toEqual([
    ['budget_hit', 'budget_tokens: 12 of 10 used'],
    ['repeating', 't was proposed alike 3 times in a row'],
    ['rolled_back', 'a step was taken back, 1 in a row: t failed'],
    ['shortened', 'a summary took the place of 4 cards, 900 tokens less'],
    ['overflow', 'the provider found the prompt too long, 1 in a row'],
  ]);
});

test('the documents list every observation, and which of them is an event (K4)', () => {
  const docs = readFileSync(new URL('../../../docs/kernel.md', import.meta.url), 'utf8');
  const table = docs.slice(docs.indexOf('## What is observed'), docs.indexOf('## Reading along'));
  const rows = [...table.matchAll(/^\| `(\w+)` .*\| +(?:`(\w+)`)? *\|$/gm)];
  expect(rows.map(([, type]) => type)).toEqual(Object.keys(OBSERVATIONS));
  const told = rows.filter(([, , event]) => event === 'notice').map(([, type]) => type);
  expect(told).toEqual(
    Object.values(OBSERVATIONS)
      .filter(isNotice)
      .map(({ type }) => type),
  );
});
