/** The one end of a chat turn, for every code there is. */
import { describe, expect, test } from '@jest/globals';
import {
  CLASS_OF,
  type EndedChatTurn,
  FAILURE_CLASSES,
  failureClassOf,
  NEXT_ACTION_OF,
  nextActionOf,
  terminalOf,
} from '../../../workflows/chat/terminal.ts';
import { FAILURES } from '../../../workflows/protocol/failures.ts';
import type { TurnStatus } from '../../../workflows/protocol/turn.ts';

const ENDED: EndedChatTurn = {
  agentTurnId: 't',
  status: 'failed',
  errorCode: null,
  reason: null,
  deliverable: null,
  chat: { sessionId: 's', chatId: 'c', traceId: 'trace', correlationId: 'correlation' },
};

const TURN_CODES = Object.entries(FAILURES).flatMap(([code, { scope }]) => (scope === 'turn' ? [code] : []));
/** Codes that no catalogue has: those of tools, and names that every object has. */
const FOREIGN = ['out_of_stock', 'Not a code', 'constructor', 'toString', '__proto__', 'hasOwnProperty'];

const failureOf = (errorCode: string | null, more: Partial<EndedChatTurn> = {}) =>
  terminalOf({ ...ENDED, errorCode, ...more });

describe('the end of a chat turn', () => {
  test('has a class for every code with which a turn ends, and for no other (C6)', () => {
    expect(Object.keys(CLASS_OF).sort()).toEqual(TURN_CODES.sort());
    expect(Object.keys(NEXT_ACTION_OF).sort()).toEqual([...FAILURE_CLASSES].sort());
  });

  test('has a class of the eight, and each class has a code or is that of tools (C6)', () => {
    const classes = new Set<string>([...TURN_CODES, ...FOREIGN].map(failureClassOf));
    expect([...classes].sort()).toEqual([...FAILURE_CLASSES].sort());
  });

  test.each([...TURN_CODES, ...FOREIGN])('that is %s says its reason and what a person can do next (C4)', (code) => {
    const terminal = failureOf(code);
    const { failure } = terminal ?? {};
    expect(failure).toMatchObject({ code, class: failureClassOf(code), nextAction: nextActionOf(code) });
    for (const words of [failure?.reason, failure?.nextAction]) expect(words).toMatch(/^\S.{10,}/);
    expect(failure?.nextAction).toMatch(/\.$/);
    expect(terminal?.status).toBe(failureClassOf(code) === 'policy_denied' ? 'denied' : 'failed');
  });

  test.each(FOREIGN)('that a tool has called %s is one of the tool (C6)', (code) => {
    expect(failureClassOf(code)).toBe('tool_runtime_error');
  });

  test.each<[TurnStatus, string | null, string]>([
    ['success', null, 'completed'],
    ['partial', 'max_steps_reached', 'failed'],
    ['partial', null, 'failed'],
    ['timeout', null, 'failed'],
    ['canceled', 'canceled', 'failed'],
    ['failed', null, 'failed'],
    ['failed', 'policy_denied', 'denied'],
    ['failed', 'provider_refusal', 'denied'],
  ])('of a turn that is %s (%s) is %s (C4)', (status, errorCode, said) => {
    const deliverable = { text: 'what could be saved', fields: [] };
    const terminal = failureOf(errorCode, { status, deliverable });
    expect(terminal).toMatchObject({ turnId: 't', status: said, deliverable, ...ENDED.chat });
    expect(terminal?.failure === undefined).toBe(said === 'completed');
  });

  test('is none while the turn is open, and none of a turn of no chat (C4)', () => {
    for (const status of ['queued', 'dispatched', 'running', 'suspended'] as const)
      expect(failureOf(null, { status })).toBeNull();
    expect(failureOf('stopped', { chat: null })).toBeNull();
  });

  test('repeats the reason that the turn ended with (C4)', () => {
    expect(failureOf('policy_denied', { reason: 'secrets are not discussed' })?.failure?.reason).toBe(
      'secrets are not discussed',
    );
  });
});
