/** What the Web UI is told of a turn, without a workflow around it. */
import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../workflows/contract/lease.ts';
import type { StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import { shownTime } from '../../../workflows/protocol/time.ts';
import { type DisplayOutlet, TurnDisplay } from '../../../workflows/turn/display.ts';

function outlet(): DisplayOutlet & { readonly shown: string[]; readonly warnings: string[] } {
  const shown: string[] = [];
  const warnings: string[] = [];
  return {
    shown,
    warnings,
    show: (details) => void shown.push(details),
    warn: (message) => void warnings.push(message),
  };
}

const lease = { agentId: 'a', turnEpoch: 3, title: 'a goal', profileName: 'tester' } as Lease;

describe('the display of a turn', () => {
  test.each([
    ['a time', Date.UTC(2026, 0, 1), '2026-01-01T00:00:00.000Z'],
    ['no time', 1e300, '1e+300 ms'],
    ['no number', Number.NaN, 'NaN ms'],
    ['the last date', 8.64e15, '+275760-09-13T00:00:00.000Z'],
    ['one after it', 8.64e15 + 1, '8640000000000001 ms'],
  ])('shows a deadline that is %s', (_, deadline, expected) => {
    const to = outlet();
    new TurnDisplay(lease, undefined, to).waitFor([{ callId: 'c', tool: 'ask', deadline }]);
    expect(to.shown.at(-1)).toContain(`until ${expected}`);
    expect(shownTime(deadline)).toBe(expected);
  });

  test('fails no turn when it cannot be shown: it warns, and says so', () => {
    const to = outlet();
    // A field that a lease of another version does not have, say.
    const display = new TurnDisplay({ ...lease, title: undefined as unknown as string }, undefined, to);
    const where = { agentTurnId: 't', deliverableCardId: 'c', outputBoxId: 'b' };
    display.end({ ...where, status: 'success', errorCode: null, reason: null });
    expect(to.warnings).toHaveLength(2);
    expect(to.warnings[0]).toContain('cannot be shown');
    expect(to.shown.at(-1)).toMatch(/^\*\*State:\*\* success\n\n.*the log of the worker says why/);
  });

  test('says which of its six steps a chat turn is at, and nothing of it for all other turns (C3)', () => {
    const to = outlet();
    const chat = { sessionId: 'a~c', chatId: 'c' };
    const display = new TurnDisplay({ ...lease, chat }, undefined, to);
    const at = () => /\*\*Chat:\*\* c · .*\*\*(\w+)\*\*/.exec(to.shown.at(-1) ?? '')?.[1];
    expect(at()).toBe('decide');
    const step = { latencyMs: 1, usage: { input: 1, output: 1, cached: 0 }, cost: 0, calls: [] };
    const call = { callId: 'x', tool: 'look_up', digest: 'd' };
    display.thought({ ...step, stepIndex: 1, calls: [call] } as unknown as StepOutcomeRecord);
    expect(at()).toBe('execute');
    display.thought({ ...step, stepIndex: 2 } as unknown as StepOutcomeRecord);
    expect(at()).toBe('respond');
    const where = { agentTurnId: 't', deliverableCardId: 'c', outputBoxId: 'b' };
    display.end({ ...where, status: 'success', errorCode: null, reason: null });
    expect(at()).toBe('record');
    new TurnDisplay(lease, undefined, to);
    expect(to.shown.at(-1)).not.toContain('Chat');
  });
});
