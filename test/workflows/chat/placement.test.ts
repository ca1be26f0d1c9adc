/** Where a message goes: the whole table. */
import { describe, expect, test } from '@jest/globals';
import { type Placement, placementOf, type SessionMoment } from '../../../workflows/chat/placement.ts';
import { QUEUE_POLICIES, type QueuePolicy } from '../../../workflows/protocol/chat.ts';

const WAITING = ['none', 'room', 'full'] as const;

/** Where a message goes that waits, by what waits already. */
const QUEUED: Readonly<Record<SessionMoment['waiting'], Placement['to']>> = {
  none: 'turn',
  room: 'join',
  full: 'turn',
};

/** What becomes of a message while a turn is open: where it goes and how that turn is ended. `queued`: it waits with what waits. */
const OPEN: Readonly<Record<QueuePolicy, (steerable: boolean) => readonly [to: string, ends?: string]>> = {
  collect: () => ['queued'],
  steer: (steerable) => [steerable ? 'steer' : 'queued'],
  interrupt: () => ['queued', 'interrupt'],
  reject: () => ['reject'],
  rollback: () => ['queued', 'rollback'],
};

const MOMENTS: readonly SessionMoment[] = [true, false].flatMap((active) =>
  WAITING.flatMap((waiting) => [true, false].map((steerable) => ({ active, waiting, steerable }))),
);

describe.each(QUEUE_POLICIES)('a message to %s', (policy) => {
  test.each(MOMENTS)('active $active, waiting $waiting, steerable $steerable (C8)', (moment) => {
    const [to, ends] = moment.active ? OPEN[policy](moment.steerable) : ['queued'];
    expect(placementOf(policy, moment)).toEqual({
      to: to === 'queued' ? QUEUED[moment.waiting] : to,
      ...(ends === undefined ? {} : { ends }),
    });
  });
});

test('only what the message itself rejects is rejected, and nothing is ended that is not open (C8)', () => {
  for (const policy of QUEUE_POLICIES)
    for (const moment of MOMENTS) {
      const { to, ends } = placementOf(policy, moment);
      expect(to === 'reject').toBe(policy === 'reject' && moment.active);
      expect(ends !== undefined && !moment.active).toBe(false);
      expect(to === 'join' && moment.waiting !== 'room').toBe(false);
    }
});
