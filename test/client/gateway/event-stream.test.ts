/** A stream of server-sent events holds one item, however many it has sent and however long it is quiet. */
import { setImmediate as nextTurnOfTheLoop } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { eventStream, type ServerSentEvent } from '../../../client/gateway/event-stream.ts';

const EVENTS = 50;

describe('a stream that stays open', () => {
  test('lets go of what its reader has taken', async () => {
    const sent: WeakRef<object>[] = [];
    const quiet = Promise.withResolvers<IteratorResult<ServerSentEvent>>();
    const next = (): Promise<IteratorResult<ServerSentEvent>> => {
      if (sent.length === EVENTS) return quiet.promise;
      const data = { number: sent.length };
      sent.push(new WeakRef(data));
      return Promise.resolve({ done: false, value: { id: `${sent.length}`, event: 'e', data } });
    };
    const stopping = new AbortController();
    const ends: string[] = [];
    const options = { stopping: stopping.signal, closed: () => void ends.push('closed'), onError: () => {} };
    const { body } = eventStream({ ...options, open: () => ({ next }) });
    const reader = body?.getReader();
    // The first piece tells when to come back.
    for (let read = 0; read <= EVENTS; read += 1) await reader?.read();
    // A weak reference holds on to what it was made for until the loop turns.
    await nextTurnOfTheLoop();
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
    const held = sent.filter((each) => each.deref() !== undefined);
    expect(sent).toHaveLength(EVENTS);
    expect(held.length).toBeLessThanOrEqual(1);
    await reader?.cancel();
    expect(ends).toEqual(['closed']);
  });
});
