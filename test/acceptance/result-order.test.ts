/** Results in any order, doubled, late, foreign: the answers the rules give, and one transcript (T14, T15, T16). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { ReportAnswer } from '../../workflows/protocol/tool-result.ts';
import { testApp } from '../support/app.ts';
import { askTool, say, suspended } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const MESSAGES = ['first', 'second', 'first again', 'stale', 'unknown', 'heartbeat'] as const;
type Message = (typeof MESSAGES)[number];

/** With ids of its own, as a provider gives them: left out, they would differ from turn to turn. */
const ASKS = {
  kind: 'message',
  toolCalls: ['one', 'two'].map((id) => ({ id, name: 'ask', arguments: {} })),
} as const;

/** So many permutations over a real server; the rules alone are cheap to try on all of them elsewhere. */
const SAMPLE = 18;

const permutations = (items: readonly Message[]): readonly (readonly Message[])[] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item) => permutations(items.filter((other) => other !== item)).map((rest) => [item, ...rest]));

const ALL = permutations(MESSAGES);
/** Evenly spread over all, so that every message comes in every place. */
const CHOSEN = Array.from(
  { length: SAMPLE },
  (_, i) => ALL[Math.floor((i * ALL.length) / SAMPLE + i / 2) % ALL.length] ?? [],
);

/** What the rules say, the turn open and its model not yet asked again. */
function expectedAcks(order: readonly Message[]): readonly ReportAnswer[] {
  const settled = new Set<string>();
  return order.map((message) => {
    if (message === 'stale') return 'stale';
    if (message === 'unknown') return 'unknown';
    const call = message === 'second' || message === 'heartbeat' ? 'second' : 'first';
    if (settled.has(call)) return 'duplicate';
    if (message !== 'heartbeat') settled.add(call);
    return 'applied';
  });
}

const AFTER_END: Readonly<Record<Message, ReportAnswer>> = {
  first: 'duplicate',
  second: 'duplicate',
  'first again': 'duplicate',
  stale: 'stale',
  unknown: 'stale',
  heartbeat: 'duplicate',
};

describe.each(scenarioStores(import.meta.url))(
  'scenario 4: two results, a duplicate, a stale epoch, an unknown id and a heartbeat on %s',
  (backend) => {
    let harness: Harness;
    let model: ScriptedServer;

    beforeAll(async () => {
      harness = await openHarness(backend);
      model = await startScriptedModel({ scripts: {} });
      await harness.startWorker(testApp([askTool]), model);
    });
    afterAll(async () => {
      await harness?.close();
      await model?.close();
    });

    /** A turn that waits for two calls; its model answers the second time only when it is let go. */
    async function asking(): Promise<{ turn: TurnHandle; callIds: readonly string[]; name: string; goOn: () => void }> {
      const name = v7();
      const sent = Promise.withResolvers<void>();
      const second = async () => {
        await sent.promise;
        return say('thanks');
      };
      model.add(name, [ASKS, second]);
      const turn = await harness.client
        .agent(`agent-${name}`)
        .enqueue({ instruction: `[script:${name}] go`, profile: 'tester' });
      return { turn, name, callIds: await suspended(turn, 2), goOn: sent.resolve };
    }

    function bodyOf(message: Message, [first = '', second = '']: readonly string[]) {
      const result = { status: 'success', result: { said: 'yes' } } as const;
      switch (message) {
        case 'first':
        case 'first again':
          return { callId: first, ...result };
        case 'second':
          return { callId: second, status: 'failed', error: { code: 'away', message: 'nobody is here' } } as const;
        case 'stale':
          return { callId: first, status: 'success', result: 'of another epoch', turnEpoch: 2 } as const;
        case 'unknown':
          return { callId: v7(), ...result };
        case 'heartbeat':
          return { callId: second, status: 'running' } as const;
      }
    }

    /** What the model was asked last, without the name that differs from turn to turn. */
    function transcript(name: string): string {
      const requests = model.requests
        .map(({ messages }) => JSON.stringify(messages))
        .filter((text) => text.includes(name));
      expect(requests).toHaveLength(2);
      return (requests[1] ?? '').replaceAll(name, 'NAME');
    }

    async function inOrder(order: readonly Message[]): Promise<string> {
      const { turn, callIds, name, goOn } = await asking();
      const acks: ReportAnswer[] = [];
      for (const message of order) acks.push((await turn.toolResult(bodyOf(message, callIds))).ack);
      expect([order, acks]).toEqual([order, expectedAcks(order)]);
      goOn();
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
      for (const message of MESSAGES) {
        expect([message, (await turn.toolResult(bodyOf(message, callIds))).ack]).toEqual([message, AFTER_END[message]]);
      }
      return transcript(name);
    }

    /** As a client that knows only Temporal sends them: there is no answer, but the same effect. */
    async function bySignals(order: readonly Message[]): Promise<string> {
      const { turn, callIds, name, goOn } = await asking();
      const { agentId } = await turn.get();
      const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
      for (const message of order) await workflow.signal('tool_result', bodyOf(message, callIds));
      goOn();
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
      return transcript(name);
    }

    test(`${SAMPLE} of ${ALL.length} permutations get the answers of the rules, and the model sees one transcript (T14, T15)`, async () => {
      const seen = await Promise.all(CHOSEN.map(inOrder));
      expect(new Set(seen).size).toBe(1);
      expect(seen[0]).toContain('nobody is here');
      expect(await harness.store.violations()).toEqual([]);
    });

    test('as bare Temporal signals they have the same effect (T14)', async () => {
      const seen = await Promise.all([...CHOSEN.slice(0, 3).map(bySignals), inOrder(MESSAGES)]);
      expect(new Set(seen).size).toBe(1);
    });
  },
);
