/** The envelope of a message, field by field. */
import { describe, expect, test } from '@jest/globals';
import { checkedEnvelope } from '../../client/chat/envelope.ts';
import { MESSAGE_BYTES } from '../../workflows/protocol/chat.ts';

const ENVELOPE = {
  eventId: 'e',
  chatId: 'c',
  timestampMs: 1,
  type: 'chat.message',
  sender: { agentId: 'ann' },
  idempotencyKey: 'k',
  traceId: 't',
  correlationId: 'r',
  payload: { text: 'hello' },
};

describe('an envelope', () => {
  test.each(Object.keys(ENVELOPE))('without %s is refused by the name of the field (C1)', (field) => {
    const { [field as keyof typeof ENVELOPE]: _, ...rest } = ENVELOPE;
    expect(() => checkedEnvelope(rest)).toThrow(
      expect.objectContaining({ code: 'invalid_input', message: expect.stringContaining(`${field}:`) }),
    );
  });

  test.each<[string, object]>([
    ['eventId', { eventId: '' }],
    ['eventId', { eventId: 'x'.repeat(257) }],
    ['eventId', { eventId: 'a\0b' }],
    ['traceId', { traceId: '\ud800' }],
    ['chatId', { chatId: '../x' }],
    ['chatId', { chatId: 'a~b' }],
    ['sessionId', { sessionId: 'a/b' }],
    ['seq', { seq: -1 }],
    ['timestampMs', { timestampMs: 'now' }],
    ['type', { type: 'chat.typing' }],
    ['sender.agentId', { sender: { agentId: 'a b' } }],
    ['sender', { sender: { agentId: 'ann', role: 'admin' } }],
    ['payload.text', { payload: { text: ' \n' } }],
    ['payload.text', { payload: { text: 'x'.repeat(MESSAGE_BYTES) } }],
    ['payload.attachments.0.name', { payload: { text: 'x', attachments: [{ name: '', text: 'x' }] } }],
    ['payload.attachments', { payload: { text: 'x', attachments: Array(21).fill({ name: 'a', text: 'x' }) } }],
    ['the message', { unknown: 1 }],
  ])('with a wrong %s is refused by its name: %j (C1)', (field, more) => {
    expect(() => checkedEnvelope({ ...ENVELOPE, ...more })).toThrow(
      expect.objectContaining({ code: 'invalid_input', message: expect.stringContaining(`${field}:`) }),
    );
  });

  test.each([null, 7, 'text', []])('that is no object is refused: %j (C1)', (value) => {
    expect(() => checkedEnvelope(value)).toThrow(expect.objectContaining({ code: 'invalid_input' }));
  });

  test('that has all fields is taken as it is (C1)', () => {
    const whole = {
      ...ENVELOPE,
      sessionId: 's',
      seq: 7,
      causationId: 'x',
      sender: { agentId: 'ann', instanceId: 'i' },
    };
    expect(checkedEnvelope(whole)).toEqual(whole);
  });
});
