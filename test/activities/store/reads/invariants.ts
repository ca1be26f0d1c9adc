/** Each check of the promise, proven on a store in which its violation was planted by hand. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { CHECK_NAMES } from '../../../../activities/store/reads/invariants.ts';
import type { StepCommit } from '../../../../workflows/contract/steps.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { testApp } from '../../../support/app.ts';
import { messageOf } from '../chat/session.ts';

export interface PlantedStore {
  readonly store: Store;
  /** Runs one statement behind the store's back. */
  readonly plant: (statement: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

const question = (turn: string, call: string, status: string): string =>
  `insert into approvals (agent_turn_id, call_id, agent_id, root_turn_id, kind, tool_name, reason, approvers, deadline, status, created_at)
     values ('${turn}', '${call}', 'a', '${turn}', 'call', 'x', 'r', '[]', 1, '${status}', 1)`;

const wait = (id: string, dueAt: string, kind: string, workItem = 'null'): string =>
  `insert into waits (wait_id, agent_id, work_item_id, kind, reason, status, deadline, due_at, set_at, agent_turn_id, created_at)
     values ('${id}', 'a', ${workItem}, ${kind}, 'r', 'active', 5, ${dueAt}, 1, 't1', 1)`;

const chat = (seq: number, turn: string, placement: string): string =>
  `insert into chat_messages (agent_id, seq, event_id, chat_id, idempotency_key, digest, sender, payload, bytes, policy, placement,
      agent_turn_id, card_id, trace_id, correlation_id, timestamp_ms, created_at)
     values ('a', ${seq}, 'e${seq}', 'c', 'k${seq}', 'd', '{"agentId":"ann"}', '{"text":"x"}', 1, 'collect', '${placement}',
      ${turn}, 'card-${seq}', 't', 'c', 1, 1)`;

/** What breaks after two finished turns `t1`, `t2` and a running one `t3` of agent `a`, and what must find it. */
const PLANTS: Readonly<Record<string, readonly string[]>> = {
  turn_without_task_event: [`delete from events where type = 'task' and agent_turn_id = 't1'`],
  several_task_events: [
    `drop index events_one_task_per_turn`,
    `insert into events (agent_id, seq, agent_turn_id, subject, type, payload, created_at)
       select agent_id, 1000, agent_turn_id, subject, type, payload, created_at from events where type = 'task' and agent_turn_id = 't1'`,
  ],
  task_event_of_open_turn: [`update turns set status = 'running' where agent_turn_id = 't1'`],
  deliverable_missing: [`delete from cards where type = 'task.deliverable' and agent_turn_id = 't1'`],
  deliverable_not_in_box: [
    `delete from box_cards where card_id = (select deliverable_card_id from turns where agent_turn_id = 't2')`,
  ],
  overlapping_turns: [`update turns set leased_at = leased_at - 1000000 where agent_turn_id = 't2'`],
  epoch_not_rising: [`update turns set turn_epoch = 1 where agent_turn_id = 't2'`],
  head_at_closed_turn: [`update agent_state_head set active_agent_turn_id = 't1'`],
  idle_head_with_active_turn: [`update agent_state_head set status = 'idle', active_agent_turn_id = null`],
  agent_status_wrong: [`update agent_state_head set agent_status = 'asleep'`],
  waiting_count_wrong: [`update agent_state_head set waiting_tool_count = 3`],
  turn_never_checked: [`update turns set check_at = null where agent_turn_id = 't3'`],
  queue_forgotten: [
    `update agent_state_head set status = 'idle', active_agent_turn_id = null`,
    `update turns set status = 'queued', check_at = null where agent_turn_id = 't3'`,
  ],
  event_before_its_time: [`update events set created_at = created_at - 1000000 where seq = 3`],
  turn_before_its_time: [`update turns set accepted_at = accepted_at + 1000000 where agent_turn_id = 't1'`],
  suspended_without_waiting: [`update agent_state_head set status = 'suspended'`],
  resume_deadline_wrong: [
    `insert into turn_waiting (agent_turn_id, call_id, step_index, kind, tool_name, deadline, status, created_at)
       values ('t3', 'c', 1, 'tool', 'x', 2, 'waiting', 1)`,
    `update agent_state_head set status = 'suspended', waiting_tool_count = 1, resume_deadline = 3`,
  ],
  waiting_after_end: [
    `insert into turn_waiting (agent_turn_id, call_id, step_index, kind, tool_name, deadline, status, created_at)
       values ('t1', 'c', 1, 'tool', 'x', 1, 'waiting', 1)`,
  ],
  edge_without_partner: [`delete from execution_edges where primitive = 'report'`],
  write_after_terminal: [
    `insert into events (agent_id, seq, agent_turn_id, subject, type, payload, created_at) values ('a', 1000, 't1', 's', 'step', '{}', 1)`,
  ],
  claim_without_outcome: [
    `insert into dispatch_claims (agent_turn_id, call_id, attempt, started_at) values ('t1', 'c', 1, 1)`,
  ],
  settlement_lost: [`update turns set settlement = 'pending', parent_agent_turn_id = 't3' where agent_turn_id = 't1'`],
  join_without_child: [
    `insert into turn_waiting (agent_turn_id, call_id, step_index, kind, tool_name, deadline, status, created_at)
       values ('t3', 'c', 1, 'join', 'ask_expert', 1, 'waiting', 1)`,
  ],
  deferral_of_closed_call: [
    `insert into deferred_reports (agent_turn_id, call_id, report, defer_reason, retry_count, next_retry_at, created_at)
       values ('t1', 'c', '{}', 'card_not_found', 0, 1, 1)`,
  ],
  question_not_waiting: [question('t3', 'c', 'waiting')],
  call_without_approval: [
    question('t3', 'c', 'denied'),
    `insert into dispatch_claims (agent_turn_id, call_id, attempt, started_at) values ('t3', 'c', 1, 1)`,
  ],
  steer_lost: [
    `insert into turn_inbox (agent_turn_id, kind, ref, seq, status, created_at) values ('t1', 'steer', 's', 1, 'pending', 1)`,
  ],
  shared_output_box: [
    `insert into agent_state_head (agent_id, status, agent_status, turn_epoch, output_box_id, waiting_tool_count, accept_seq, event_seq, updated_at, recorded_at)
       select 'b', 'idle', 'asleep', 0, output_box_id, 0, 0, 0, 1, 1 from agent_state_head`,
  ],
  given_more_than_it_has: [
    `update turns set status = 'running', parent_agent_turn_id = 't3', parent_call_id = 'c', given_tokens = 1000001 where agent_turn_id = 't1'`,
  ],
  time_never_comes: [wait('w1', 'null', `'external'`), `update agent_state_head set has_work = 1`],
  time_of_stopped_agent: [
    wait('w1', '5', `'external'`),
    `update agent_state_head set has_work = 1`,
    `update agents set lifecycle = 'stopped'`,
  ],
  work_not_read: [
    `insert into triggers (trigger_id, agent_id, name, token_hash, hits, created_at) values ('g', 'a', 'x', 'h', 0, 1)`,
  ],
  wakes_miscounted: [
    `insert into wakes (agent_id, place, kind, source, reason, count, bytes, due, created_at)
       values ('a', 1, 'external_event', 'g', 'came', 1, 5, 0, 1)`,
  ],
  wait_of_closed_work: [wait('w1', '5', `'external'`, `'gone'`), `update agent_state_head set has_work = 1`],
  effect_of_ended_turn: [
    `insert into work_effects (agent_turn_id, call_id, step_index, call_index, effect) values ('t1', 'c', 1, 0, '{}')`,
  ],
  message_without_turn: [chat(1, `'gone'`, 'collected')],
  message_gap: [
    `insert into chat_sessions (agent_id, session_id, of_agent, chat_id, first_sender, several_senders, last_seq, created_at, updated_at)
       values ('a', 'a', 'a', 'c', 'ann', 0, 2, 1, 1)`,
    chat(2, `'t3'`, 'turn'),
  ],
  steered_message_lost: [
    chat(1, `'t1'`, 'steered'),
    `insert into turn_inbox (agent_turn_id, kind, ref, seq, status, created_at) values ('t1', 'steer', 'card-1', 1, 'requeued', 1)`,
  ],
  chat_turn_without_messages: [
    `update turns set chat_id = 'c' where agent_turn_id = 't1'`,
    chat(1, `'t1'`, 'rejected'),
  ],
  messages_reordered: [chat(1, `'t2'`, 'turn'), chat(2, `'t1'`, 'turn')],
  event_gap: [`delete from events where seq = 2`],
  box_gap: [`delete from box_cards where seq = 2`],
  memory_wrong: [
    `insert into boxes (box_id, kind, parent_ids, created_at) values ('given', 'context', '[]', 1)`,
    `insert into box_cards (box_id, seq, card_id) select 'given', 1, deliverable_card_id from turns where agent_turn_id = 't1'`,
  ],
};

const STEP: StepCommit = {
  stepIndex: 1,
  steerIds: [],
  note: null,
  thought: { text: 'x', toolCalls: [] },
  calls: [],
  usage: { input: 1, output: 1, cached: 0 },
  model: 'm',
  finishReason: 'stop',
  cost: null,
  latencyMs: 1,
  firstTokenMs: null,
};

export function describeInvariants(name: string, open: () => Promise<PlantedStore>): void {
  describe(`the promise on ${name}`, () => {
    let planted: PlantedStore | undefined;
    afterEach(async () => {
      await planted?.close();
      planted = undefined;
    });

    /** Two finished turns and a running one. */
    async function prepared(): Promise<PlantedStore> {
      planted = await open();
      const { store } = planted;
      await store.registerProfiles([...testApp([]).agents.values()]);
      for (const agentTurnId of ['t1', 't2', 't3']) {
        const outcome = await store.accept({
          agentId: 'a',
          agentTurnId,
          request: { instruction: 'x', profile: 'tester', priority: 'normal' },
        });
        if (outcome.kind === 'refused' || !outcome.lease) throw new Error('no lease');
        const { agentId, turnEpoch, profileHash } = outcome.lease;
        await store.openStep({ agentId, agentTurnId, turnEpoch }, { stepIndex: 1, profileHash });
        const commit = { termination: { status: 'success' }, deliverable: { from: 'fallback' }, engine: null } as const;
        if (agentTurnId !== 't3') await store.commitTurn({ agentId, agentTurnId, turnEpoch }, commit);
      }
      return planted;
    }

    test('holds after ordinary turns', async () => {
      const { store } = await prepared();
      expect(await store.violations()).toEqual([]);
    });

    test.each([
      ['work', `update work_items set todo_list = 'no', blocked_by = 'no'`],
      [
        'an effect',
        `insert into work_effects (agent_turn_id, call_id, step_index, call_index, effect) values ('t3', 'c', 1, 0, 'no')`,
      ],
      ['a profile', `update profiles set snapshot = 'no'`],
      [
        'a card that has come',
        `insert into wakes (agent_id, place, kind, source, reason, count, card_id, bytes, due, created_at)
           values ('a', 1, 'task_result', 's', 'r', 1, 'odd', 0, 0, 1)`,
        `update agent_state_head set came = 1`,
        `insert into cards (card_id, type, content, author, token_count, bytes, created_at) values ('odd', 'task.deliverable', 'no', 'x', 1, 1, 1)`,
      ],
    ])(
      'of %s that cannot be read keeps no agent from ending its turn, being stopped, started and looked at (A7)',
      async (_, ...statements) => {
        const { store, plant } = await prepared();
        await plant(
          `insert into work_items (work_item_id, agent_id, revision, objective, state, plan_status, todo_list, blocked_by, set_at, continued_revision, created_at, updated_at)
           values ('i', 'a', 1, 'x', 'open', 'ready', '[]', '[]', 1, 0, 1, 1)`,
        );
        await plant(`update agent_state_head set has_work = 1`);
        for (const statement of statements) await plant(statement);
        expect(await store.stopTurn('t3', 'enough')).toMatchObject({ ack: 'stopped' });
        await store.setLifecycle('a', 'stopped', 'enough');
        await store.setLifecycle('a', 'started', '');
        expect(await store.agentSummary('a')).toMatchObject({ identity: { agentId: 'a' } });
        expect(await store.listAgents()).toHaveLength(1);
      },
    );

    test('what is kept of an agent to be read quickly is built anew from the rows that decide (A5)', async () => {
      const { store, plant } = await prepared();
      expect(await store.rebuildAgent('a')).toEqual([]);
      expect(await store.rebuildAgent('nobody')).toBeNull();
      const before = await store.agentSummary('a');
      await plant(
        `insert into triggers (trigger_id, agent_id, name, token_hash, hits, created_at) values ('g', 'a', 'x', 'h', 0, 1)`,
      );
      await plant(
        `update agent_state_head set total_input = 7, total_cost = 9, waiting_tool_count = 2, agent_status = 'asleep',
           came = 3, came_bytes = 9`,
      );
      await plant(wait('w1', 'null', `'external'`));
      expect((await store.violations()).map(({ check }) => check)).toContain('time_never_comes');
      expect(new Set(await store.rebuildAgent('a'))).toEqual(
        new Set(['total_input', 'total_cost', 'waiting_tool_count', 'agent_status', 'has_work', 'came', 'came_bytes']),
      );
      expect(await store.violations()).toEqual([]);
      expect((await store.agentSummary('a'))?.model).toEqual(before?.model);
      expect(await store.rebuildAgent('a')).toEqual([]);
    });

    test('a context box takes no card, also when the row of a turn says that it is its output box (T24)', async () => {
      const { store, plant } = await prepared();
      const boxId = await store.writeContextBox(['read only']);
      const before = await store.readBox(boxId);
      await plant(`update turns set output_box_id = '${boxId}' where agent_turn_id = 't3'`);
      const end = { termination: { status: 'success' }, deliverable: { from: 'fallback' }, engine: null } as const;
      await expect(store.commitTurn({ agentId: 'a', agentTurnId: 't3', turnEpoch: 3 }, end)).rejects.toMatchObject({
        code: 'box_unavailable',
      });
      expect(await store.readBox(boxId)).toEqual(before);
      expect(await store.getTurn('t3')).toMatchObject({ status: 'running' });
    });

    test.each([
      ['whose request is no JSON', `update turns set request = 'oops' where agent_turn_id = 'bad'`],
      ['whose request is malformed', `update turns set request = '{"contextBoxId":7}' where agent_turn_id = 'bad'`],
      ['whose instruction has no text', `update cards set content = '{}' where agent_turn_id = 'bad'`],
      ['whose instruction is gone', `delete from cards where agent_turn_id = 'bad'`],
    ])('a queued turn %s ends invalid_request, and the next one runs (T8)', async (_, statement) => {
      planted = await open();
      const { store, plant } = planted;
      await store.registerProfiles([...testApp([]).agents.values()]);
      const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
      for (const agentTurnId of ['open', 'bad', 'good']) await store.accept({ agentId: 'a', agentTurnId, request });
      await plant(statement);
      const { handover } = await store.stopTurn('open', 'test');
      expect(handover).toMatchObject({ next: { agentTurnId: 'good' }, more: false });
      expect(await store.getTurn('bad')).toMatchObject({ status: 'failed', errorCode: 'invalid_request' });
      expect(await store.violations()).toEqual([]);
    });

    test.each([
      ['a sender', `update chat_messages set sender = '{}' where event_id = 'e2'`],
      ['words', `update chat_messages set payload = '{"text":7,"attachments":"no"}' where event_id = 'e2'`],
      ['all of it', `update chat_messages set payload = 'no', sender = 'no' where event_id = 'e2'`],
    ])('a message of which %s cannot be read keeps no session from going on (T8, C8)', async (_, statement) => {
      planted = await open();
      const { store, plant } = planted;
      await store.registerProfiles([...testApp([]).agents.values()]);
      const send = (n: number, policy: 'collect' | 'steer') =>
        store.sendMessage({
          ...{ agentId: 'a', profile: 'tester', policy },
          message: messageOf(`m${n}`, { eventId: `e${n}`, chatId: 'c' }),
        });
      const sent = await send(1, 'collect');
      const open1 = sent.kind === 'sent' ? (sent.message.agentTurnId ?? '') : '';
      await send(2, 'collect');
      await send(3, 'steer');
      await plant(statement);
      expect(await store.listMessages('a~c')).toMatchObject([{}, { sender: { agentId: expect.any(String) } }, {}]);
      const { handover } = await store.breakOffTurn(open1, { reason: 'enough' });
      expect((await store.getTurn(handover?.next?.agentTurnId ?? ''))?.instruction).toContain('m3');
      expect(await store.violations()).toEqual([]);
    });

    test('a card that two turns share as their instruction, and that cannot be read by then, ends the later one alone (T8, T24)', async () => {
      planted = await open();
      const { store, plant } = planted;
      await store.registerProfiles([...testApp([]).agents.values()]);
      const instructionCardId = await store.writeInstructionCard('shared');
      const shared = { instructionCardId, profile: 'tester', priority: 'normal' } as const;
      await store.accept({ agentId: 'a', agentTurnId: 'open', request: shared });
      await store.accept({ agentId: 'a', agentTurnId: 'bad', request: shared });
      const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
      await store.accept({ agentId: 'a', agentTurnId: 'good', request });
      await plant(`update cards set content = 'oops' where card_id = '${instructionCardId}'`);
      const { handover } = await store.stopTurn('open', 'test');
      expect(handover).toMatchObject({ next: { agentTurnId: 'good' }, more: false });
    });

    test.each([
      ['is no JSON', `update profiles set snapshot = 'oops' where name = 'broken'`],
      ['is none', `update profiles set snapshot = '{"profile":7}' where name = 'broken'`],
      ['is gone', `delete from profiles where name = 'broken'`],
    ])(
      'a queued turn whose profile %s ends, and neither the end of the turn before nor the next one is held up (T8)',
      async (_, statement) => {
        planted = await open();
        const { store, plant } = planted;
        for (const name of ['tester', 'broken'])
          await store.registerProfiles([...testApp([], { name }).agents.values()]);
        for (const [agentTurnId, profile] of [
          ['open', 'tester'],
          ['bad', 'broken'],
          ['good', 'tester'],
        ] as const) {
          const request = { instruction: 'x', profile, priority: 'normal' } as const;
          await store.accept({ agentId: 'a', agentTurnId, request });
        }
        await plant(statement);
        const { handover } = await store.stopTurn('open', 'test');
        expect(handover).toMatchObject({ next: { agentTurnId: 'good' }, more: false });
        expect(await store.getTurn('bad')).toMatchObject({ status: 'failed', errorCode: 'internal_error' });
        expect(await store.violations()).toEqual([]);
      },
    );

    test.each([
      ['usage is no JSON', `usage = 'oops'`],
      ['request is no JSON', `request = 'oops'`],
      ['lease is incomplete', `profile_hash = null`],
    ])(
      'an open turn whose %s makes no step, and can be stopped for the next one to run (T5, T8)',
      async (_, change) => {
        planted = await open();
        const { store, plant } = planted;
        await store.registerProfiles([...testApp([]).agents.values()]);
        const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
        const opened = await store.accept({ agentId: 'a', agentTurnId: 'bad', request });
        await store.accept({ agentId: 'a', agentTurnId: 'good', request });
        if (opened.kind === 'refused' || !opened.lease) throw new Error('no lease');
        const { agentId, agentTurnId, turnEpoch, profileHash } = opened.lease;
        const fence = { agentId, agentTurnId, turnEpoch };
        await plant(`update turns set ${change} where agent_turn_id = 'bad'`);
        const opening = store.openStep(fence, { stepIndex: 1, profileHash });
        await expect(opening.then(() => store.commitStep(fence, STEP))).rejects.toThrow();
        expect(await store.stopTurn('bad', 'test')).toMatchObject({
          ack: 'stopped',
          handover: { next: { agentTurnId: 'good' } },
        });
        expect(await store.getTurnStatus('bad')).toBe('failed');
        expect(await store.violations()).toEqual([]);
      },
    );

    test('what cannot be read of the sizes of a memory keeps its agent from nothing (T8, K15)', async () => {
      const { store, plant } = await prepared();
      const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
      await store.accept({ agentId: 'a', agentTurnId: 't4', request });
      await plant(`update box_units set results = 'oops'`);
      expect(await store.stopTurn('t3', 'test')).toMatchObject({ handover: { next: { agentTurnId: 't4' } } });
    });

    test('a queued turn that names a parent which is not in the store does not hold up the queue (T8)', async () => {
      planted = await open();
      const { store, plant } = planted;
      await store.registerProfiles([...testApp([]).agents.values()]);
      const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
      for (const agentTurnId of ['open', 'orphan']) await store.accept({ agentId: 'a', agentTurnId, request });
      await plant(
        `update turns set on_parent_end = 'stop', parent_agent_turn_id = 'gone' where agent_turn_id = 'orphan'`,
      );
      expect(await store.stopTurn('open', 'test')).toMatchObject({ handover: { next: { agentTurnId: 'orphan' } } });
    });

    test.each([
      ['is not in the store', `update turns set profile_hash = 'gone' where agent_turn_id = 't3'`],
      ['cannot be read', `insert into profiles (hash, name, snapshot, created_at) values ('gone', 'x', 'oops', 1)`],
    ])(
      'a due turn whose profile %s is found all the same, with no budgets to judge it by (T12)',
      async (_, statement) => {
        const { store, plant } = await prepared();
        await plant(statement);
        await store.accept({
          agentId: 'b',
          agentTurnId: 't4',
          request: { instruction: 'x', profile: 'tester', priority: 'normal' },
        });
        await plant(`update turns set profile_hash = 'gone' where agent_turn_id = 't3'`);
        await plant(`update turns set check_at = 0 where agent_turn_id in ('t3', 't4')`);
        const due = new Map((await store.dueTurns(10)).map((turn) => [turn.agentTurnId, turn.timeouts]));
        expect(due.get('t3')).toBeNull();
        expect(due.get('t4')).toMatchObject({ whenNoWorkers: 'wait' });
      },
    );

    test('tells very many violations a page at a time, each once', async () => {
      const { store, plant } = await prepared();
      const numbers = 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 12000)';
      await plant(`insert into turns (agent_turn_id, agent_id, accept_seq, lane, status, request, request_digest, instruction_card_id,
        profile_name, depth, usage, step_count, accepted_at) ${numbers} select 'q' || i, 'q', i, 1, 'queued', '{}', '', '', 'tester', 0, '{}', 0, 1 from n`);
      const found: string[] = [];
      for await (const page of store.violationPages()) {
        expect(page.length).toBeLessThanOrEqual(1_000);
        for (const { check, agentTurnId } of page) if (check === 'edge_without_partner') found.push(agentTurnId ?? '');
      }
      expect(found).toHaveLength(12_000);
      expect(new Set(found).size).toBe(12_000);
      expect(await store.violations()).toHaveLength(1_000);
      expect(await store.violations(7)).toHaveLength(7);
    });

    test('every check has its plant', () => {
      expect(Object.keys(PLANTS).sort()).toEqual([...CHECK_NAMES].sort());
    });

    test.each(Object.entries(PLANTS))('finds %s', async (check, statements) => {
      const { store, plant } = await prepared();
      for (const statement of statements) await plant(statement);
      expect((await store.violations()).map((violation) => violation.check)).toContain(check);
    });
  });
}
