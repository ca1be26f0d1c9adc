/** Random histories of sessions: what a journal has of one makes the same session in another store (C9, C10). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { v7 } from 'uuid';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import { RECOVERED, readHistory } from '../../../workers/journal/history.ts';
import type { Lease, TurnCommit } from '../../../workflows/contract/lease.ts';
import { QUEUE_POLICIES } from '../../../workflows/protocol/chat.ts';
import { Session } from '../../activities/store/chat/session.ts';
import { STORES, StoreBench, SUCCESS } from '../../activities/store/store-bench.ts';
import { testApp } from '../../support/app.ts';
import { journalText, keptMemory, keptMessages, newFolder, rebuilt } from './journal-bench.ts';

const FAILED = { status: 'failed', errorCode: 'provider_error', reason: 'it is down' } as const;

/** What may happen to a session. */
const happening = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      policy: fc.constantFrom(...QUEUE_POLICIES),
      by: fc.constantFrom('ann', 'bob'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('answer' as const),
      ends: fc.constantFrom('answered', 'failed', 'denied', 'blank'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('stop' as const, 'break off' as const, 'take back' as const, 'cancel' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('record' as const) }) },
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

describe.each(STORES)('a journal of any history on %s', (_, makeOpener) => {
  const denying = (...contains: string[]) => testApp([], { inputPolicy: { deny: [{ contains, reason: 'not that' }] } });
  const bench = new StoreBench(makeOpener, denying('secret'));
  const other = new StoreBench(makeOpener, denying('secret', 'forbidden'));

  /** Carries out what happens; a turn that answers reads what it was steered by before. */
  async function live(session: Session, journal: FolderJournal, what: readonly Happening[]): Promise<void> {
    const { store } = bench;
    for (const [at, each] of what.entries()) {
      const { activeAgentTurnId: active = null } = (await store.getAgent(session.agentId)) ?? {};
      if (each.do === 'send') {
        await session.send(at % 11 === 10 ? `a secret ${at}` : `said ${at}`, {
          policy: each.policy,
          sender: { agentId: each.by },
        });
      } else if (each.do === 'record') await journal.record(session.agentId);
      else if (each.do === 'cancel') {
        const [queued] = await store.listTurns(session.agentId, { status: 'queued' });
        if (queued) await store.stopTurn(queued.agentTurnId, 'not wanted');
      } else if (active !== null) {
        if (each.do === 'stop') await store.stopTurn(active, 'enough');
        else if (each.do !== 'answer')
          await store.breakOffTurn(active, { rollback: each.do === 'take back', reason: 'off' });
        else await answer(await bench.leased(session.agentId), each.ends);
      }
    }
  }

  async function answer(lease: Lease, ends: string): Promise<void> {
    const opening = await bench.store.openStep(
      { agentId: lease.agentId, agentTurnId: lease.agentTurnId, turnEpoch: lease.turnEpoch },
      { stepIndex: 1, profileHash: lease.profileHash },
    );
    const steerIds = opening.steers.map(({ cardId }) => cardId);
    const text = ends === 'blank' ? '' : `answer of ${lease.turnEpoch}`;
    const { thoughtCardId: cardId } = await bench.committed(lease, 1, { steerIds, thought: { text, toolCalls: [] } });
    const commit: Record<string, TurnCommit> = {
      failed: { ...SUCCESS, termination: FAILED },
      denied: { ...SUCCESS, termination: { status: 'failed', errorCode: 'policy_denied', reason: 'not that' } },
    };
    await bench.ended(lease, commit[ends] ?? { ...SUCCESS, deliverable: { from: 'thought', cardId } });
  }

  /** Ends the open turn as recovery does where the store has the session. */
  async function closeOpen({ agentId }: Session): Promise<void> {
    const head = await bench.store.getAgent(agentId);
    if (!head || head.activeAgentTurnId === null || head.status === 'idle') return;
    const { activeAgentTurnId: agentTurnId, turnEpoch, status, updatedAt: progressAt } = head;
    const seen = { agentId, agentTurnId, turnEpoch, status, progressAt };
    await bench.store.reapTurn(seen, { status: 'failed', errorCode: 'report_missing', reason: RECOVERED });
  }

  test('makes the same messages, ends and memory in a store that lost the session (C9, C10)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { minLength: 1, maxLength: 30 }), async (what) => {
        const session = new Session(bench);
        const folder = newFolder();
        const journal = new FolderJournal(folder, bench.store);
        await session.send('first', { eventId: v7() });
        await live(session, journal, what);
        await journal.record(session.agentId);
        expect(journalText(folder, session.agentId)).toBe(await rebuilt(bench.store, session.agentId));
        const { session: lost } = await readHistory(folder, session.agentId);
        await closeOpen(session);
        expect((await other.store.restoreSession(lost)).restored).toBe(true);
        expect(await keptMessages(other.store, session.agentId)).toEqual(
          await keptMessages(bench.store, session.agentId),
        );
        expect(await keptMemory(other.store, session.agentId)).toEqual(await keptMemory(bench.store, session.agentId));
        const ends = async ({ store }: StoreBench) =>
          (await store.listTurns(session.agentId, { limit: 1_000 }))
            // What had only waited makes a turn of its own.
            .filter(({ agentTurnId }) => lost.turns.some((turn) => turn.agentTurnId === agentTurnId))
            .map(({ agentTurnId, status, errorCode, reason, deliverable }) => ({
              agentTurnId,
              status,
              errorCode,
              reason,
              deliverable,
            }))
            .sort((a, b) => (a.agentTurnId < b.agentTurnId ? -1 : 1));
        expect(await ends(other)).toEqual(await ends(bench));
      }),
      { numRuns: Number(process.env.AGENTTURN_TEST_HISTORIES ?? 40) },
    );
    expect(await other.store.violations()).toEqual([]);
  });

  test('a turn that answered what its profile denies by now stays as it ended (C10)', async () => {
    const session = new Session(bench);
    const folder = newFolder();
    await answer(await session.started('forbidden by now'), 'answered');
    await new FolderJournal(folder, bench.store).record(session.agentId);
    await other.store.restoreSession((await readHistory(folder, session.agentId)).session);
    expect(await other.store.listTurns(session.agentId)).toMatchObject([
      { status: 'success', deliverable: { text: 'answer of 1' } },
    ]);
  });
});
