/** On PostgreSQL the server's clock is the store's, whatever the clocks of the machines show (T13, T17). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { enqueueRequestSchema } from '../../../../workflows/protocol/enqueue.ts';
import { testApp } from '../../../support/app.ts';
import { freshSchemaUrl } from '../../../support/postgres.ts';
import { fenceOf, newAgent } from '../store-bench.ts';

const HOUR = 3_600_000;
/** Much less than the clocks are apart, and more than a busy machine is off when it measures them. */
const MINUTE = 60_000;
const WAIT_MS = 700;

describe.each([
  ['an hour behind', -HOUR],
  ['a day ahead', 24 * HOUR],
])('a process whose clock is %s', (_, skewMs) => {
  let skewed: Store;
  let right: Store;

  beforeAll(async () => {
    const url = await freshSchemaUrl();
    right = await openPostgresStore({ url });
    skewed = await openPostgresStore({ url, machineClock: () => Date.now() + skewMs });
    await right.registerProfiles([...testApp([]).agents.values()]);
  });
  afterAll(async () => {
    await right?.close();
    await skewed?.close();
  });

  /** A call that this process lets wait. */
  const waiting = async (by: Store) => {
    const agentId = newAgent();
    const request = enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester' });
    const accepted = await by.accept({ agentId, request });
    if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('not leased');
    const fence = fenceOf(accepted.lease);
    await by.openStep(fence, { stepIndex: 1, profileHash: accepted.lease.profileHash });
    const content = { callId: agentId, tool: 't', arguments: {} };
    const thought = { text: '', toolCalls: [] };
    const more = { steerIds: [], note: null, model: 'm', finishReason: 'stop', cost: 0, latencyMs: 1, firstTokenMs: 1 };
    const usage = { input: 1, output: 1, cached: 0 };
    await by.commitStep(fence, { stepIndex: 1, thought, usage, calls: [{ index: 0, digest: 'd', content }], ...more });
    const outcome = await by.suspendCall(fence, agentId, WAIT_MS);
    if (outcome.kind !== 'suspended') throw new Error('it does not wait');
    return { fence, callId: agentId, outcome };
  };

  test('knows by how much', () => {
    expect(Math.abs(skewed.clockAheadMs() + skewMs)).toBeLessThan(MINUTE);
    expect(Math.abs(right.clockAheadMs())).toBeLessThan(MINUTE);
  });

  test.each(['it', 'another process'])(
    'makes a call wait as long as it should, and %s sees when that is over',
    async (who) => {
      const startedAt = performance.now();
      const { fence, callId, outcome } = await waiting(skewed);
      expect(outcome.leftMs).toBe(WAIT_MS);
      expect(Math.abs(outcome.deadline - Date.now() - WAIT_MS)).toBeLessThan(MINUTE);
      const looker = who === 'it' ? skewed : right;
      const looks: number[] = [];
      for (;;) {
        const { settled, waiting: left } = await looker.resolveWaiting(fence, [callId]);
        if (settled.length > 0) break;
        looks.push(left[0]?.leftMs ?? Number.NaN);
        await looker.changed(20);
      }
      expect(performance.now() - startedAt).toBeGreaterThan(WAIT_MS / 2);
      for (const leftMs of looks) expect(leftMs).toBeLessThanOrEqual(WAIT_MS + MINUTE);
    },
  );

  test('does not see due what is not due, nor miss what is', async () => {
    const { fence } = await waiting(right);
    const due = async (store: Store) => (await store.dueTurns(100)).map(({ agentTurnId }) => agentTurnId);
    expect(await due(skewed)).not.toContain(fence.agentTurnId);
    await right.makeDue([fence.agentTurnId]);
    // Each process knows the server's clock to half a round trip: what is due for one is due for another a moment later.
    while (!(await due(skewed)).includes(fence.agentTurnId)) await skewed.changed(20);
  });
});
