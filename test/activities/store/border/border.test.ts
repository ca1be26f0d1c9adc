/** What a border leaves in view, on every store: nothing of anybody else, whatever is asked and with whatever id (A10, A11, T25). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { callId as callIdOf, delegatedAgentId } from '../../../../activities/ids.ts';
import { type Border, NO_BORDER } from '../../../../workflows/contract/border.ts';
import type { ClientStore } from '../../../../workflows/contract/store.ts';
import { enqueueRequestSchema } from '../../../../workflows/protocol/enqueue.ts';
import { messageOf } from '../chat/session.ts';
import { fenceOf, STORES, StoreBench } from '../store-bench.ts';
import { begun, type Planted, planted, tenantStore } from './planted.ts';

const app = defineApp({
  agents: [
    defineAgent({
      name: 'tester',
      delegationPolicy: { profiles: ['tester', 'doctor'] },
      budgets: { maxTokens: 1_000_000_000 },
    }),
    defineAgent({ name: 'doctor' }),
    defineAgent({ name: 'admin' }),
    defineAgent({ name: 'greeter', singleton: true }),
  ],
});

const request = (input: object) => enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...input });
const report = { callId: 'c', status: 'success', result: 1 } as const;

/** What each method is asked with the ids of somebody; null for one that takes no id, tells nothing, or is enough by its own token. */
type Asked = Promise<unknown> | null;
const CALLS: { readonly [Method in keyof ClientStore]: (store: ClientStore, of: Planted) => readonly Asked[] } = {
  accept: (store, of) => [
    store.accept({ agentId: of.agentId, request: request({}) }),
    store.accept({ agentId: `border~${v7()}`, request: request({ contextBoxId: of.boxes.context }) }),
    store.accept({ agentId: `border~${v7()}`, request: request({ contextBoxId: of.boxes.history }) }),
    store.accept({ agentId: `border~${v7()}`, request: request({ outputBoxId: of.boxes.output }) }),
    store.accept({
      agentId: `border~${v7()}`,
      request: enqueueRequestSchema.parse({ instructionCardId: of.cards.instruction, profile: 'tester' }),
    }),
  ],
  getTurn: (store, of) => [store.getTurn(of.turnId), store.getTurn(of.childTurnId)],
  getTurnStatus: (store, of) => [store.getTurnStatus(of.turnId)],
  readTranscript: (store, of) => [store.readTranscript(of.turnId), store.readTranscript(of.childTurnId)],
  listEdges: (store, of) => [store.listEdges(of.turnId)],
  readChunks: (store, of) => [store.readChunks(of.turnId, 0, 100)],
  stopTurn: (store, of) => [store.stopTurn(of.turnId, 'x'), store.stopTurn(of.childTurnId, 'x')],
  breakOffTurn: (store, of) => [store.breakOffTurn(of.turnId, { reason: 'x' })],
  steerTurn: (store, of) => [store.steerTurn(of.turnId, 'x')],
  setBudgets: (store, of) => [store.setBudgets(of.turnId, { maxSteps: 9 })],
  reportResult: (store, of) => [store.reportResult(of.turnId, { ...report, callId: of.callId })],
  compareResult: (store, of) => [store.compareResult(of.turnId, { ...report, callId: of.callId })],
  answerApproval: (store, of) => [store.answerApproval(of.turnId, { callId: of.callId, decision: 'approved' })],
  settleDelegation: (store, of) => [store.settleDelegation(of.childTurnId)],
  readEvents: (store, of) => [
    store.readEvents({ agentId: of.agentId }),
    store.readEvents({ agentId: of.agentId, agentTurnId: of.turnId }),
    store.readEvents({ agentId: of.childId }),
  ],
  listApprovals: (store, of) => [
    store.listApprovals({ all: true }),
    store.listApprovals({ rootTurnId: of.turnId }),
    store.listApprovals({ agentId: of.agentId }),
  ],
  findTurns: (store, of) => [store.findTurns(), store.findTurns({ agentId: of.agentId })],
  spending: (store) => [store.spending({ by: 'agent', since: 0 }), store.spending({ by: 'profile', since: 0 })],
  listInbox: (store, of) => [store.listInbox(), store.listInbox({ agentId: of.agentId })],
  leaseNext: (store, of) => [store.leaseNext(of.agentId)],
  listTurns: (store, of) => [store.listTurns(of.agentId), store.listTurns(of.childId)],
  getAgent: (store, of) => [store.getAgent(of.agentId), store.getAgent(of.childId), store.getAgent(of.session)],
  agentSummary: (store, of) => [store.agentSummary(of.agentId)],
  rebuildAgent: (store, of) => [store.rebuildAgent(of.agentId)],
  setLifecycle: (store, of) => [store.setLifecycle(of.agentId, 'stopped', 'x')],
  listWorkItems: (store, of) => [store.listWorkItems(of.agentId)],
  listWaits: (store, of) => [store.listWaits(of.agentId)],
  listTimers: (store, of) => [store.listTimers(of.agentId)],
  cancelTimer: (store, of) => [store.cancelTimer(of.agentId, 'timer_1')],
  listTriggers: (store, of) => [store.listTriggers(of.agentId)],
  createTrigger: (store, of) => [store.createTrigger(of.agentId, { triggerId: v7(), name: 'x', tokenHash: v7() })],
  revokeTrigger: (store, of) => [store.revokeTrigger(of.agentId, of.triggerId)],
  wakeAgent: (store, of) => [store.wakeAgent(of.agentId, { text: 'x' }), store.wakeAgent(of.childId, { text: 'x' })],
  listAgents: (store) => [store.listAgents({ oneShot: 'with' }), store.listAgents({ posture: 'has_queued_input' })],
  countAgents: (store) => [store.countAgents({ oneShot: 'with' })],
  replaceOutputBox: (store, of) => [store.replaceOutputBox(of.agentId, of.boxes.output, [])],
  findBox: (store, of) => Object.values(of.boxes).map((boxId) => store.findBox(boxId)),
  readBox: (store, of) => Object.values(of.boxes).map((boxId) => store.readBox(boxId, true)),
  readCards: (store, of) => [store.readCards(Object.values(of.cards))],
  sendMessage: (store, of) => [
    store.sendMessage({ agentId: of.agentId, message: messageOf('x', { chatId: of.chatId }) }),
    store.sendMessage({ agentId: of.agentId, message: messageOf('x', { chatId: 'other' }), profile: 'tester' }),
  ],
  listMessages: (store, of) => [store.listMessages(of.session)],
  getSession: (store, of) => [store.getSession(of.session)],
  listSessions: (store, of) => [store.listSessions(), store.listSessions({ of: of.agentId })],
  readJournal: (store, of) => [store.readJournal(of.session, 0)],
  restoreSession: (store, of) => [
    store.restoreSession({
      ...{ sessionId: of.session, of: of.agentId, chatId: of.chatId, profile: 'tester', tenant: null },
      ...{ messages: [], turns: [] },
    }),
  ],
  listProfiles: (store) => [store.listProfiles()],
  // Which store it is; no gateway tells it.
  identity: () => [],
  violations: (store) => [store.violations()],
  violationPages: (store) => [(async () => Array.fromAsync(store.violationPages()))()],
  writeInstructionCard: () => [],
  writeOutputCard: () => [],
  writeContextBox: () => [],
  fireTrigger: () => [],
  clockAheadMs: () => [],
  changed: () => [],
  close: () => [],
  within: () => [],
};

/** What has what is the caller's own. */
const LISTS = new Set(['findTurns', 'listAgents', 'countAgents', 'spending', 'listSessions']);

const answered = (asked: Asked): Promise<unknown> =>
  Promise.resolve(asked).catch((error: unknown) => ({ code: (error as { code?: string }).code, said: String(error) }));

/** Ids as nobody has them, of the same shape. */
function madeUp(of: Planted): Planted {
  const replace = (value: unknown): unknown =>
    typeof value === 'string'
      ? (MADE_UP.get(value) ?? value)
      : Object.fromEntries(Object.entries(value as object).map(([key, each]) => [key, replace(each)]));
  for (const id of idsOf(of))
    if (!MADE_UP.has(id)) MADE_UP.set(id, /~|^agent|^of-/.test(id) ? `${id.slice(0, 20)}-${v7()}` : v7());
  const made = replace(of) as Planted;
  return { ...made, session: `${made.agentId}~${made.chatId}` };
}
const MADE_UP = new Map<string, string>();

const idsOf = (value: object): string[] =>
  Object.values(value).flatMap((each) => (typeof each === 'string' ? [each] : idsOf(each as object)));

describe.each(STORES)('a border, on %s', (_, fresh) => {
  const bench = new StoreBench(fresh, app);

  const BORDERS: readonly (readonly [string, Border])[] = [
    ['of another tenant', { tenant: 'border', anyProfile: true }],
    ['of operators who see a part', { tenant: null, agentPrefixes: ['border'], anyProfile: true }],
    ['of a tenant whose name begins like that of the other', { tenant: 'acm', anyProfile: true }],
  ];

  describe.each(BORDERS)('%s', (name, border) => {
    test.each(['acme', null])(
      'shows nothing of tenant %s, and changes nothing there, whatever is asked (A10, A11, T25)',
      async (tenant) => {
        const all = await planted(bench, tenant, `of-${v7()}`);
        const of = border.tenant === tenant ? withoutShared(all) : all;
        const store = bench.store.within(border);
        const nobody = madeUp(of);
        const before = await Promise.all([of.agentId, of.childId, of.session].map((id) => bench.eventsOf(id)));
        for (const [method, ask] of Object.entries(CALLS)) {
          const [said, made] = [await answers(ask(store, of)), await answers(ask(store, nobody))];
          const secrets = [of.phrase, of.childId, of.cards.thought, of.boxes.history];
          const named = idsOf({ ...of, phrase: '' });
          expect([method, secrets.filter((each) => without(said, named).includes(each))]).toEqual([method, []]);
          // It is told as what is not there: the ids apart, the answers are the same.
          if (!LISTS.has(method)) expect([method, anonymous(said, of)]).toEqual([method, anonymous(made, nobody)]);
        }
        const after = await Promise.all([of.agentId, of.childId, of.session].map((id) => bench.eventsOf(id)));
        expect(after).toEqual(before);
        expect(name).not.toBe('');
      },
    );
  });

  const answers = (asked: readonly Asked[]): Promise<unknown[]> => Promise.all(asked.map(answered));
  /** Without what operators have written for whichever of them has its id, which follows from what it says. */
  const withoutShared = (of: Planted): Planted => ({
    ...of,
    cards: { ...of.cards, instruction: v7(), output: v7() },
    boxes: { ...of.boxes, context: v7() },
  });
  /** What was said, but for the ids that were asked with. */
  const without = (said: unknown, ids: readonly string[]): string =>
    ids.filter(Boolean).reduce((text, id) => text.replaceAll(id, '?'), JSON.stringify(said));
  const anonymous = (said: unknown, of: Planted): string =>
    without(
      said,
      idsOf(of).toSorted((a, b) => b.length - a.length),
    )
      .replaceAll(/(border|acm)~[\w-]+|[\da-f-]{36}/g, '?')
      .replaceAll('?~?', '?')
      .replaceAll(/"id":\d+/g, '');

  test('has all that is its own, and what its agents have made (A10)', async () => {
    const of = await planted(bench, 'acme', v7());
    expect(of.agentId).toMatch(/^acme~/);
    expect(of.childId).toMatch(/^acme~doctor-/);
    const store = tenantStore(bench, 'acme');
    for (const turnId of [of.endedId, of.turnId, of.childTurnId])
      expect(await store.getTurn(turnId)).toMatchObject({ agentTurnId: turnId });
    expect(await store.readCards(Object.values(of.cards))).toHaveLength(4);
    for (const boxId of Object.values(of.boxes)) expect(await store.findBox(boxId)).not.toBeNull();
    expect(await store.listApprovals({ rootTurnId: of.turnId })).toMatchObject([{ callId: of.callId }]);
    expect((await store.findTurns()).map(({ agentTurnId }) => agentTurnId)).toEqual(
      expect.arrayContaining([of.turnId, of.childTurnId]),
    );
    expect((await store.listAgents({ oneShot: 'with' })).every(({ tenant }) => tenant === 'acme')).toBe(true);
    expect(await store.getSession(of.session)).toMatchObject({ sessionId: of.session, tenant: 'acme' });
    // Its name may be left out.
    expect(await store.getAgent(of.agentId.slice('acme~'.length))).toMatchObject({ agentId: of.agentId });
    expect(await bench.store.violations()).toEqual([]);
  });

  test('of a prefix has what its agents have made, and not what is named like it (A10)', async () => {
    const name = `team${v7().slice(-6)}`;
    const [own, other] = [await planted(bench, null, name), await planted(bench, null, `${name}2`)];
    const store = bench.store.within({ tenant: null, agentPrefixes: [name], anyProfile: true });
    expect(await store.getTurn(own.childTurnId)).toMatchObject({ agentId: own.childId });
    expect(await store.getAgent(own.childId)).not.toBeNull();
    expect(await store.getSession(own.session)).not.toBeNull();
    await expect(store.getAgent(other.agentId)).rejects.toMatchObject({ code: 'agent_not_found' });
    expect(await store.getTurn(other.childTurnId)).toBeNull();
    const agents = (await store.listAgents({ oneShot: 'with' })).map(({ agentId }) => agentId);
    expect(agents.toSorted()).toEqual([own.agentId, own.childId, own.session].toSorted());
    expect((await store.findTurns()).map(({ agentTurnId }) => agentTurnId)).toContain(own.childTurnId);
    // An agent whose name is within the prefix, but that another tree has made, is not its own.
    const made = bench.store.within({ tenant: null, agentPrefixes: ['doctor-'], anyProfile: true });
    expect(await made.listAgents({ oneShot: 'with' })).toEqual([]);
    expect(await made.getAgent(own.childId)).toBeNull();
  });

  test('shows a turn that its own tree has made of another agent, and nothing else of that agent (A10)', async () => {
    const name = `team${v7().slice(-6)}`;
    const shared = await begun(bench, null, `shared-${name}`);
    await bench.ended(shared);
    const lease = await begun(bench, null, name);
    const { handover } = await bench.delegated(lease, { strategy: 'reuse', agentId: shared.agentId });
    const turnId = handover?.next?.agentTurnId ?? '';
    const store = bench.store.within({ tenant: null, agentPrefixes: [name], anyProfile: true });
    expect(await store.getTurn(turnId)).toMatchObject({ agentId: shared.agentId });
    expect((await store.findTurns()).map(({ agentTurnId }) => agentTurnId)).toEqual(
      expect.arrayContaining([turnId, lease.agentTurnId]),
    );
    expect(await store.getTurn(shared.agentTurnId)).toBeNull();
    expect((await store.findTurns()).map(({ agentTurnId }) => agentTurnId)).not.toContain(shared.agentTurnId);
    await expect(store.getAgent(shared.agentId)).rejects.toMatchObject({ code: 'agent_not_found' });
    expect(await store.readEvents({ agentId: shared.agentId, agentTurnId: turnId })).not.toEqual([]);
  });

  describe('between tenants', () => {
    test.each([
      ['asks an agent', 'reuse'],
      ['takes over what an agent remembers', 'clone'],
    ] as const)('no delegation %s of another one (A11, T25)', async (_what, strategy) => {
      const lease = await begun(bench, 'acme', v7());
      for (const owner of ['beta', null]) {
        const foreign = await begun(bench, owner, `of-${v7()}`, { instruction: 'sesame' });
        await bench.ended(foreign);
        const { call, handover } = await bench.delegated(lease, { strategy, agentId: foreign.agentId });
        expect(handover).toBeNull();
        expect(call).toMatchObject({ settled: { status: 'failed', errorCode: 'agent_not_found' } });
      }
    });

    test('a profile that a policy names makes agents of the caller’s tenant, with all that they make (A10)', async () => {
      const lease = await begun(bench, 'acme', v7());
      const { handover } = await bench.delegated(lease, { strategy: 'new', profile: 'tester' });
      const child = handover?.next;
      if (!child) throw new Error('nothing was made');
      const again = await bench.delegated(child, { strategy: 'new', profile: 'doctor' });
      expect(await bench.store.getAgent(again.handover?.agentId ?? '')).toMatchObject({ tenant: 'acme' });
    });

    test('the operators may give what is theirs, and nothing of one tenant to another (T25)', async () => {
      const context = await bench.store.writeContextBox(['of the house']);
      const lease = await begun(bench, 'acme', v7());
      await bench.ended(lease);
      const foreign = await tenantStore(bench, 'beta').writeContextBox(['sesame']);
      const asked = (contextBoxId: string) =>
        bench.store.accept({ agentId: lease.agentId, request: request({ contextBoxId }) });
      expect(await asked(context)).toMatchObject({ kind: 'accepted' });
      expect(await asked(foreign)).toMatchObject({ kind: 'refused', code: 'box_unavailable' });
    });

    test('a report brings no card of another one, not even later (T18)', async () => {
      const lease = await begun(bench, 'acme', v7());
      const callId = await bench.suspended(lease);
      const foreign = await tenantStore(bench, 'beta').writeOutputCard('sesame');
      const outcome = { callId, status: 'success', toolResultCardId: foreign } as const;
      expect(await tenantStore(bench, 'acme').reportResult(lease.agentTurnId, outcome)).toMatchObject({
        ack: 'deferred',
      });
      const own = await tenantStore(bench, 'acme').writeOutputCard('sesame');
      expect(own).not.toBe(foreign);
      const outcomeOfOwn = { ...outcome, toolResultCardId: own };
      expect(await tenantStore(bench, 'acme').reportResult(lease.agentTurnId, outcomeOfOwn)).toMatchObject({
        ack: 'applied',
      });
    });

    test('a report brings no card of the operators, and does not tell that there is one (T18)', async () => {
      for (const border of [
        { tenant: 'acme', anyProfile: true },
        { tenant: null, agentPrefixes: ['team-'], anyProfile: true },
      ]) {
        const lease = await begun(bench, border.tenant, `team-${v7()}`);
        const callId = await bench.suspended(lease);
        const { deliverableCardId } = await bench.ended(await begun(bench, null, `of-${v7()}`));
        const store = bench.store.within(border);
        const told = async (toolResultCardId: string) =>
          (await store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId })).ack;
        expect(await told(deliverableCardId)).toBe('deferred');
        if (border.tenant) expect(await told(await bench.store.writeOutputCard(`sesame-${v7()}`))).toBe('deferred');
        // The operators themselves may give it.
        const given = await bench.store.writeOutputCard(`given-${v7()}`);
        const report = { callId, status: 'success', toolResultCardId: given } as const;
        expect((await bench.store.reportResult(lease.agentTurnId, report)).ack).toBe('applied');
      }
    });

    test('no card of one tenant gets into what an agent of another one remembers, whoever puts it there (T25)', async () => {
      const lease = await begun(bench, 'acme', v7());
      await bench.ended(lease);
      const foreign = await tenantStore(bench, 'beta').writeInstructionCard(`sesame-${v7()}`);
      await expect(bench.store.replaceOutputBox(lease.agentId, lease.outputBoxId, [foreign])).rejects.toMatchObject({
        code: 'box_unavailable',
      });
    });

    test('a chat of the operators and an agent of a tenant never have one id (A10)', async () => {
      const tenant = `t${v7().slice(-8)}`;
      const sent = (border: Border, agentId: string, chatId: string) =>
        bench.store.within(border).sendMessage({ agentId, message: messageOf('hello', { chatId }), profile: 'tester' });
      await begun(bench, tenant, 'trip');
      expect(await sent(NO_BORDER, tenant, 'trip')).toMatchObject({ code: 'agent_not_found' });
      expect(await sent(NO_BORDER, tenant, 'other')).toMatchObject({ code: 'invalid_request' });
      const made = await bench.store.accept({ agentId: `${tenant}~fresh`, request: request({}) });
      expect(made).toMatchObject({ code: 'invalid_request', message: expect.stringContaining(`tenant ${tenant}`) });
      const operators = `o${v7().slice(-8)}`;
      expect(await sent(NO_BORDER, operators, 'trip')).toMatchObject({ kind: 'sent' });
      const late = { tenant: operators, anyProfile: true };
      expect(await bench.store.within(late).accept({ agentId: `${operators}~x`, request: request({}) })).toMatchObject({
        code: 'invalid_request',
      });
    });

    test('an agent that somebody has made is none that a delegation makes (A11)', async () => {
      const lease = await begun(bench, null, v7());
      const callId = callIdOf(lease.agentTurnId, 1, 0);
      await begun(bench, null, delegatedAgentId('doctor', callId));
      await bench.think(lease, 1, ['delegate_async']);
      const target = { strategy: 'new', profile: 'doctor' } as const;
      const wanted = { callId, attempt: 1, target, instruction: 'sesame', onParentEnd: 'continue' } as const;
      const { call, handover } = await bench.store.delegate(fenceOf(lease), wanted);
      expect(handover).toBeNull();
      expect(call).toMatchObject({ settled: { errorCode: 'delegation_denied' } });
    });

    test('a border is narrowed and never widened', async () => {
      const own = bench.store.within({ tenant: 'acme', profiles: ['tester'], anyProfile: false });
      for (const wider of [NO_BORDER, { tenant: 'acme', anyProfile: true }]) {
        const again = own.within(wider);
        expect((await again.listAgents({ oneShot: 'with' })).every(({ tenant }) => tenant === 'acme')).toBe(true);
        const asked = again.accept({ agentId: `acme~${v7()}`, request: request({ profile: 'admin' }) });
        expect(await asked).toMatchObject({ code: 'permission_denied' });
      }
      expect(() => own.within({ tenant: 'beta', anyProfile: true })).toThrow('this client is not for beta');
    });

    test('an id that is taken is neither had nor made known by another one', async () => {
      const name = v7();
      const first = await begun(bench, 'acme', name);
      const second = await begun(bench, 'beta', name);
      expect([first.agentId, second.agentId]).toEqual([`acme~${name}`, `beta~${name}`]);
      const outcome = await bench.store
        .within({ tenant: 'beta', anyProfile: true })
        .accept({ agentId: first.agentId, request: request({ idempotencyKey: 'k' }) });
      expect(outcome).toMatchObject({ kind: 'accepted' });
      expect(await bench.store.getAgent(`beta~${first.agentId}`)).not.toBeNull();
    });
  });

  describe('around profiles', () => {
    const outcome = async (border: Border, agentId: string, profile?: string) => {
      const asked = enqueueRequestSchema.parse({ instruction: 'x', ...(profile ? { profile } : {}) });
      const accepted = await bench.store.within(border).accept({ agentId, request: asked });
      return accepted.kind === 'accepted' ? 'accepted' : accepted.code;
    };

    test('an agent keeps its profile unless the caller may change it', async () => {
      const lease = await begun(bench, 'acme', v7());
      const narrow = { tenant: 'acme', anyProfile: false };
      expect(await outcome(narrow, lease.agentId)).toBe('accepted');
      expect(await outcome(narrow, lease.agentId, 'tester')).toBe('accepted');
      expect(await outcome(narrow, lease.agentId, 'admin')).toBe('permission_denied');
      expect(await outcome({ ...narrow, profiles: ['tester', 'admin'] }, lease.agentId, 'admin')).toBe(
        'permission_denied',
      );
      expect(await outcome({ ...narrow, anyProfile: true }, lease.agentId, 'admin')).toBe('accepted');
    });

    test('a caller starts those that it may: named, or the one that the agent is called like', async () => {
      const named = { tenant: 'acme', profiles: ['tester'], anyProfile: false };
      expect(await outcome(named, v7(), 'tester')).toBe('accepted');
      expect(await outcome(named, v7(), 'admin')).toBe('permission_denied');
      expect(await outcome({ ...named, anyProfile: true }, v7(), 'admin')).toBe('permission_denied');
      const narrow = { tenant: v7(), anyProfile: false };
      expect(await outcome(narrow, v7(), 'tester')).toBe('permission_denied');
      // Not even one that is called like its profile, but where the caller is for agents of that name.
      expect(await outcome(narrow, 'greeter')).toBe('permission_denied');
      const ofThatName = { ...narrow, agentPrefixes: [`${narrow.tenant}~greeter`] };
      expect(await outcome(ofThatName, `${narrow.tenant}~greeter`)).toBe('accepted');
      expect(await outcome(NO_BORDER, v7(), 'admin')).toBe('accepted');
    });

    test('a caller is told of those that it may start', async () => {
      const told = async (border: Border) => (await bench.store.within(border).listProfiles()).map(({ name }) => name);
      expect(await told({ tenant: 'acme', anyProfile: true })).toEqual(await told(NO_BORDER));
      expect(await told({ tenant: 'acme', profiles: ['tester', 'nosuch'], anyProfile: true })).toEqual(['tester']);
      expect(await told({ tenant: 'acme', anyProfile: false })).toEqual([]);
    });

    test('who may not start a profile does not get at it by a steer or by a trigger', async () => {
      const lease = await begun(bench, 'acme', v7());
      const store = bench.store.within({ tenant: 'acme', profiles: ['doctor'], anyProfile: true });
      const denied = { code: 'permission_denied' };
      await expect(store.steerTurn(lease.agentTurnId, 'x')).rejects.toMatchObject(denied);
      const trigger = { triggerId: v7(), name: 'x', tokenHash: v7() };
      await expect(store.createTrigger(lease.agentId, trigger)).rejects.toMatchObject(denied);
      expect(await tenantStore(bench, 'acme').steerTurn(lease.agentTurnId, 'x')).toMatchObject({ ack: 'accepted' });
    });

    test('who may not start a profile does not get at it by an agent that another one has made', async () => {
      const of = await planted(bench, 'acme', v7());
      const narrow = { tenant: 'acme', anyProfile: false };
      expect(await outcome(narrow, of.childId)).toBe('permission_denied');
      expect(await outcome({ ...narrow, profiles: ['tester'] }, of.childId)).toBe('permission_denied');
      await expect(bench.store.within(narrow).wakeAgent(of.childId, { text: 'x' })).rejects.toMatchObject({
        code: 'permission_denied',
      });
      const said = { agentId: of.agentId, message: messageOf('x', { chatId: 'c2' }), profile: 'admin' };
      expect(await bench.store.within(narrow).sendMessage(said)).toMatchObject({ code: 'permission_denied' });
      const { profile: _, ...own } = said;
      expect(await bench.store.within(narrow).sendMessage(own)).toMatchObject({ kind: 'sent' });
    });
  });
});
