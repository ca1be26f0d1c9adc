/** Who waits for a turn when the store of the process is closed, as an app does that was told to end. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { AgentClient } from '../../client/agent-client.ts';
import { openStore } from '../../workers/open-store.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { freshSchemaUrl } from '../support/postgres.ts';

const newUrl = async (backend: string) =>
  backend === 'sqlite'
    ? `sqlite:${join(mkdtempSync(join(tmpdir(), 'agentturn-closed-')), 'store.db')}`
    : await freshSchemaUrl();

test.each(['sqlite', 'postgres'])(
  'a closed store on %s rejects a result and events that are awaited, at once',
  async (backend) => {
    const store = await openStore(await newUrl(backend));
    const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
    const accepted = await store.accept({ agentId: 'agent-1', request });
    if (accepted.kind === 'refused') throw new Error(accepted.message);
    // Whoever is not woken by the end of the store waits until the test is given up: none asks again by itself.
    const unasked: Store = { ...store, changed: (_, topic) => store.changed(600_000, topic) };
    // Nothing here reaches Temporal.
    const turn = new AgentClient({ temporal: {} as Client, store: unasked }).turn(accepted.agentTurnId);
    const events = turn.events();
    const awaited = [
      turn.result(),
      (async () => {
        for await (const _ of events);
      })(),
    ];
    const outcomes = Promise.allSettled(awaited);
    // Both have read the store by then, and wait for it to change.
    await store.changed(20);
    await store.close();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'store_unavailable' } });
    }
  },
);
