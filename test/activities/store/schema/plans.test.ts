/**
 * How the statements of a turn find their rows: by an index that leads to what they need, whatever lies behind it in the store, with
 * statistics and without. The store is that of `npm run bench -- --scale`, and the statements are those that its rounds send.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';
import { openRaw } from '../../../../bench/scale/database.ts';
import { LONG_BOX, seededStore } from '../../../../bench/scale/measure.ts';
import { Rounds } from '../../../../bench/scale/rounds.ts';
import { agentIdAt, LONG_AGENT } from '../../../../bench/scale/seed.ts';
import { PROFILE } from '../../../../bench/workload.ts';
import { openStore } from '../../../../workers/open-store.ts';
import type { SendMessage } from '../../../../workflows/contract/chat.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { freshSchemaUrl, statementsOf } from '../../../support/postgres.ts';
import { messageOf } from '../chat/session.ts';

const TURNS = 20_000;
const LONGEST_MS = 240_000;

/** One way to the rows of one table. */
interface Access {
  /** Undefined for a table that is read as a whole. */
  readonly index?: string;
  readonly on: string;
  /** Of the index, that are restricted. */
  readonly columns: readonly string[];
}

interface Sent {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Columns that must be restricted where rows are found by this index; the first alone would lead to all that lies behind. */
const NARROW: Readonly<Record<string, readonly string[]>> = {
  sqlite_autoindex_box_cards_1: ['box_id', 'seq'],
  box_cards_pkey: ['box_id', 'seq'],
  sqlite_autoindex_box_cards_2: ['card_id', 'box_id'],
  box_cards_card_id_box_id_key: ['card_id', 'box_id'],
  sqlite_autoindex_turns_2: ['agent_id', 'accept_seq'],
  turns_agent_id_accept_seq_key: ['agent_id', 'accept_seq'],
  sqlite_autoindex_events_1: ['agent_id', 'seq'],
  events_agent_id_seq_key: ['agent_id', 'seq'],
  sqlite_autoindex_chat_messages_1: ['agent_id', 'seq'],
  chat_messages_pkey: ['agent_id', 'seq'],
  sqlite_autoindex_chat_messages_2: ['agent_id', 'idempotency_key'],
  chat_messages_agent_id_idempotency_key_key: ['agent_id', 'idempotency_key'],
  sqlite_autoindex_chat_messages_3: ['agent_id', 'event_id'],
  chat_messages_agent_id_event_id_key: ['agent_id', 'event_id'],
};
/** They have a few rows in any store, or are the list of what is looked for. */
const SMALL = new Set(['profiles', 'profile_heads', 'svc_leases', 'deferred_reports', 'json_each']);

/** What they have is no more than there are open turns, or is read from its beginning, as far as a page goes. */
const WHOLE = new Set([
  ...['turns_open', 'approvals_waiting', 'heads_with_work', 'turns_queue'],
  ...['sqlite_autoindex_chat_sessions_1', 'chat_sessions_pkey'],
]);

/** Rows of one thing that agents have between their turns: one of each agent but the one with the long box, which has very many. */
function workOf(table: string): string {
  const columns: Readonly<Record<string, readonly [names: string, values: string]>> = {
    work_items: [
      `work_item_id, revision, objective, state, plan_status, todo_list, blocked_by, recheck_at, due_at, set_at, continued_revision, updated_at`,
      `'item-' || agent_turn_id, 1, 'x', case when accept_seq = 3 then 'open' else 'completed' end, 'needs_input', '[]', '[]',
         case when accept_seq = 3 then 9e15 else null end, case when accept_seq = 3 then 9e15 else null end, 1, 1, 1`,
    ],
    waits: [
      `wait_id, kind, reason, status, deadline, due_at, set_at, agent_turn_id`,
      `'wait-' || agent_turn_id, 'external', 'x', case when accept_seq = 3 then 'active' else 'resolved' end, 9e15,
         case when accept_seq = 3 then 9e15 else null end, 1, agent_turn_id`,
    ],
    timers: [
      `timer_id, reason, next_at, due_at, set_at, fired`,
      `'timer-' || agent_turn_id, 'x', case when accept_seq = 3 then 9e15 else null end, case when accept_seq = 3 then 9e15 else null end, 1, 1`,
    ],
    triggers: [
      `trigger_id, name, token_hash, hits, revoked_at`,
      `'trigger-' || agent_turn_id, 'x', 'hash-' || agent_turn_id, 0, case when accept_seq = 3 then null else 1 end`,
    ],
  };
  const [names, values] = columns[table] ?? ['', ''];
  return `insert into ${table} (${names}, agent_id, created_at) select ${values}, agent_id, accept_seq from turns where accept_seq < 2000`;
}

/** What the usual turn of the store has none of: a call that waited, one that was started, one that was asked about, a message. */
const MORE = [
  `insert into turn_waiting (agent_turn_id, call_id, step_index, kind, tool_name, deadline, status, created_at)
     select agent_turn_id, agent_turn_id || '-call', 1, 'tool', 'ask', 1, 'applied', 1 from turns`,
  `insert into dispatch_claims (agent_turn_id, call_id, attempt, started_at, duration_ms)
     select agent_turn_id, agent_turn_id || '-call', 1, 1, 1 from turns`,
  `insert into approvals (agent_turn_id, call_id, agent_id, root_turn_id, kind, tool_name, reason, approvers, deadline, status, created_at)
     select agent_turn_id, agent_turn_id || '-call', agent_id, agent_turn_id, 'call', 'ask', '', '[]', 1,
     case when accept_seq = 5 then 'waiting' else 'approved' end, accept_seq from turns`,
  ...[1, 2].map(
    (seq) => `insert into chunks (agent_turn_id, seq, step_index, attempt, body, created_at)
     select agent_turn_id, ${seq}, 1, 1, '{}', accepted_at from turns`,
  ),
  `insert into turn_inbox (agent_turn_id, kind, ref, seq, status, created_at)
     select agent_turn_id, 'steer', agent_turn_id, 1, 'consumed', 1 from turns`,
  // Agents with work, of whom one is busy with it.
  ...['work_items', 'waits', 'timers', 'triggers'].map(workOf),
  `insert into work_effects (agent_turn_id, call_id, step_index, call_index, effect)
     select agent_turn_id, agent_turn_id || '-call', 1, 0, '{}' from turns where status = 'success'`,
  `insert into trigger_deliveries (trigger_id, delivery_key, created_at) select 'trigger-' || agent_turn_id, 'key', accepted_at from turns`,
  `insert into wakes (agent_id, place, kind, source, reason, count, card_id, bytes, due, taken_by, created_at)
     select agent_id, accept_seq, 'external_event', 'trigger', 'x', 1, agent_turn_id || '-came', 1, 0, agent_turn_id, 1 from turns`,
  // A session with very many messages, and as many sessions with one.
  ...["'talker~c'", "'talker-' || agent_turn_id"].flatMap((agent) => [
    `insert into chat_messages (agent_id, seq, event_id, chat_id, idempotency_key, digest, sender, payload, bytes, policy, placement,
        agent_turn_id, card_id, trace_id, correlation_id, timestamp_ms, created_at)
       select ${agent}, row_number() over (order by agent_turn_id), 'e-' || agent_turn_id, 'c', 'k-' || agent_turn_id, '',
        '{"agentId":"ann"}', '{"text":"x"}', 100, 'collect', 'turn', agent_turn_id, ${agent} || agent_turn_id, '', '', 1, 1 from turns`,
    `insert into chat_sessions (agent_id, session_id, of_agent, chat_id, first_sender, several_senders, last_seq, created_at, updated_at)
       select agent_id, agent_id, 'talker', 'c', 'ann', 0, max(seq), 1, 1 from chat_messages where agent_id like 'talker%'
       group by agent_id on conflict (agent_id) do nothing`,
  ]),
  `update agent_state_head set has_work = 1 where agent_id in (select agent_id from work_items)`,
  `update turns set parent_agent_turn_id = 'caller-' || agent_turn_id, parent_call_id = 'call' where accept_seq = 3`,
];

/** What is wrong with the way a statement finds its rows. */
function problemsOf({ text }: Sent, accesses: readonly Access[]): string[] {
  // SQLite plans a statement with a bare parameter anew at each use.
  if (/(?<!\+)\?/.test(text)) return [`may be planned again at each use: ${text}`];
  // A page is read in the order of an index, and only as far as it goes.
  const isPage = / limit (?:\+\?|\$)/.test(text);
  return accesses.flatMap(({ index, on, columns }) => {
    if (index === undefined) return SMALL.has(on) ? [] : [`reads ${on} as a whole: ${text}`];
    if (/hidden_reason" is null/.test(text) && /^(?:sqlite_autoindex_box_cards_1|box_cards_pkey)$/.test(index))
      return [`passes the hidden cards: ${text}`];
    if (
      /"(?:chat_id|not_before)" is/.test(text) &&
      /^(?:sqlite_autoindex_turns_2|turns_agent_id_accept_seq_key)$/.test(index)
    )
      return [`passes turns that do not wait: ${text}`];
    const isWhole = columns.every((column) => column === '') && !WHOLE.has(index);
    if (isWhole) return [`reads ${index} as a whole: ${text}`];
    const needed =
      /"call_id" = (?:\+\?|\$)/.test(text) && index === 'cards_by_turn' ? ['call_id'] : (NARROW[index] ?? []);
    // The last place of a box is found at the end of the index, however many cards are before it.
    const isPlaces = /^(?:sqlite_autoindex_box_cards_1|box_cards_pkey)$/.test(index);
    const isEnd = isPlaces && columns.includes('box_id') && /max\((?:c\.)?seq\) from box_cards/.test(text);
    const missing = isPage || isEnd ? [] : needed.filter((column) => !columns.includes(column));
    return missing.length === 0 ? [] : [`finds rows by ${index} without ${missing.join(', ')}: ${text}`];
  });
}

interface Planner {
  plans(sent: Sent): Promise<readonly (readonly Access[])[]>;
  analyze(): Promise<void>;
  /** Forgets what the server knows of the sizes of its tables. */
  forget(): Promise<void>;
  close(): Promise<void>;
}

/** Statements that are sent while it listens. */
interface Listener {
  readonly sent: Map<string, Sent>;
  stop(): void;
}

function listenToSqlite(): Listener {
  const sent = new Map<string, Sent>();
  const prototype = SqliteDatabase.prototype as { prepare: SqliteDatabase.Database['prepare'] };
  const { prepare } = prototype;
  prototype.prepare = function (this: SqliteDatabase.Database, text: string) {
    sent.set(text, { text, values: [] });
    return prepare.call(this, text);
  } as SqliteDatabase.Database['prepare'];
  return { sent, stop: () => Object.assign(prototype, { prepare }) };
}

function listenToPostgres(): Listener {
  const sent = new Map<string, Sent>();
  const prototype = pg.Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = prototype;
  prototype.query = function (this: pg.Client, ...args: unknown[]) {
    for (const statement of statementsOf(args[0])) sent.set(statement.text, statement);
    return query.apply(this, args);
  };
  return { sent, stop: () => Object.assign(prototype, { query }) };
}

const isPlanned = (text: string): boolean => /^\s*(?:select|insert|update|delete|with)\b/.test(text);

function sqlitePlanner(url: string): Planner {
  const database = new SqliteDatabase(url.slice('sqlite:'.length));
  return {
    plans: async ({ text }) => {
      const values = Array.from(text.matchAll(/\?/g), () => null);
      const rows = database.prepare(`explain query plan ${text}`).all(values) as { detail: string }[];
      return [rows.flatMap(({ detail }) => sqliteAccess(detail))];
    },
    analyze: async () => {
      database.exec('analyze');
    },
    forget: async () => {
      database.exec('delete from sqlite_stat1; analyze sqlite_schema');
    },
    close: async () => {
      database.close();
    },
  };
}

function sqliteAccess(detail: string): Access[] {
  const [, how, on = '', index, columns = ''] =
    /^(SCAN|SEARCH) (\S+)(?: USING (?:COVERING )?INDEX (\S+)(?: \((.*)\))?)?/.exec(detail) ?? [];
  // A row of constants.
  if (how === undefined || /^(?:CONSTANT|\d+-ROW)$/.test(on)) return [];
  const names = columns.split(' AND ').map((column) => column.replace(/[<>=].*$/, ''));
  return [index === undefined ? { on, columns: [] } : { on, index, columns: names }];
}

async function postgresPlanner(url: string): Promise<Planner> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    plans: async ({ text, values }) => {
      await client.query(`prepare planned as ${text}`);
      const literals = values.map((value) => (value === null ? 'null' : client.escapeLiteral(String(value))));
      const call = values.length === 0 ? 'planned' : `planned(${literals.join(', ')})`;
      const plans: Access[][] = [];
      for (const mode of ['force_custom_plan', 'force_generic_plan']) {
        await client.query(`set plan_cache_mode = ${mode}`);
        const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
          `explain (format json) execute ${call}`,
        );
        plans.push(rows.flatMap(({ 'QUERY PLAN': [{ Plan }] }) => postgresAccesses(Plan)));
      }
      await client.query('deallocate planned');
      return plans;
    },
    analyze: async () => {
      await client.query('analyze');
    },
    forget: async () => {
      await client.query(
        `delete from pg_statistic where starelid in
          (select oid from pg_class where relnamespace = current_schema()::regnamespace)`,
      );
    },
    close: () => client.end(),
  };
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly PlanNode[];
}

function postgresAccesses(node: PlanNode): Access[] {
  const below = (node.Plans ?? []).flatMap(postgresAccesses);
  const { 'Relation Name': on = '', 'Index Name': index, 'Index Cond': condition = '' } = node;
  if (node['Node Type'] === 'Seq Scan') return [{ on, columns: [] }, ...below];
  if (index === undefined) return below;
  return [{ on, index, columns: condition.match(/[a-z_]+(?=\)?(?:::\w+)? (?:=|<|>))/g) ?? [] }, ...below];
}

/** What few turns do, on the agent with the most behind it. */
async function unusual(store: Store): Promise<void> {
  const request = { instruction: 'Again.', profile: PROFILE, priority: 'normal' } as const;
  const accepted = await store.accept({ agentId: LONG_AGENT, request });
  if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('it is not idle');
  const { lease } = accepted;
  const { agentId, agentTurnId, turnEpoch, outputBoxId: boxId, profileHash, instructionSeq } = lease;
  const fence = { agentId, agentTurnId, turnEpoch };
  await store.openStep(fence, { stepIndex: 1, profileHash });
  await store.readExtents(lease.earlier);
  const [oldest] = lease.earlier;
  const hide = [{ boxId, fromSeq: oldest?.fromSeq ?? 0, toSeq: (oldest?.toSeq ?? 0) - 1 }];
  const usage = { input: 1, output: 1, cached: 0 };
  await store.findSummary(fence, hide);
  await store.commitSummary(fence, { stepIndex: 1, text: 'in short', hide, usage, cost: 0 });
  await store.readResult(fence, 'none');
  await store.readCall(fence, 'none');
  await store.openStep(fence, { stepIndex: 1, profileHash, hide: [instructionSeq] });
  await store.steerTurn(agentTurnId, 'more');
  const budget = { code: 'max_steps_reached', used: 1, limit: 1 } as const;
  const [callId, kind] = ['budget-1-max_steps_reached', 'budget'] as const;
  await store.askApprovals(fence, [{ callId, kind, tool: '', reason: 'used up', budget }]);
  await store.setBudgets(agentTurnId, { maxTokens: 9 });
  await store.answerApproval(agentTurnId, { callId, decision: 'approved', budgets: { maxSteps: 9 } });
  await store.resolveWaiting(fence, [callId]);
  const place = { createdAt: 0, agentTurnId: '', callId: '' };
  for (const filter of [
    {},
    { agentId },
    { rootTurnId: agentTurnId },
    { callId },
    { all: true },
    { agentId, all: true },
  ])
    await store.listApprovals({ ...filter, after: place, limit: 10 });
  await store.findTurns({ since: 1, before: { acceptedAt: 9, agentTurnId }, limit: 10 });
  await store.listInbox({ after: place, limit: 10 });
  await store.readTranscript(agentTurnId, { after: 3, limit: 10 });
  await store.listTurns(agentId, { after: 5, limit: 3 });
  await store.listTurns(agentId, { status: 'queued' });
  await store.readEvents({ agentId, afterSeq: 7, limit: 10 });
  await store.listEdges(agentTurnId);
  await store.listOpenTurns('', 10);
  await store.makeDue([agentTurnId]);
  for (const turn of await store.dueTurns(10))
    await store.scheduleCheck(turn, { ...turn, checkAt: Date.now() + 60_000, wokenAt: null });
  for (const page of [{}, { after: 'item-x', open: true, limit: 10 }, { after: 'item-x', limit: 10 }]) {
    await store.listWorkItems(agentId, page);
    await store.listWaits(agentId, page);
    await store.listTriggers(agentId, page);
  }
  await store.listTimers(agentId);
  await store.readWork(fence);
  await store.agentSummary(agentId);
  await store.listAgents({ posture: 'waiting_for_external', limit: 10 });
  await store.listAgents({ after: 'agent-x', limit: 10 });
  await store.listAgents({ after: 'agent-x', oneShot: 'only', limit: 10 });
  await store.getTurnStatus(agentTurnId);
  await store.stopTurn(agentTurnId, 'enough');
  const copy = await store.accept({ agentId: 'copies-a-box', request: { ...request, outputBoxId: boxId } });
  if (copy.kind === 'accepted') await store.stopTurn(copy.agentTurnId, 'enough');
  await wakeUps(store);
}

/** What is said in the session with the most messages, and read of it. */
async function chats(store: Store): Promise<void> {
  const said = async (more: Partial<SendMessage>) => {
    const sent = await store.sendMessage({
      agentId: 'talker',
      profile: PROFILE,
      message: messageOf('x', { chatId: 'c' }),
      ...more,
    });
    if (sent.kind !== 'sent') throw new Error(sent.message);
    return sent;
  };
  const first = await said({});
  for (const policy of ['collect', 'steer', 'collect', 'interrupt', 'steer', 'rollback', 'reject'] as const)
    await said({ policy });
  const repeated = { message: messageOf('x', { chatId: 'c', idempotencyKey: 'again', eventId: 'again' }) };
  await said(repeated);
  await said(repeated);
  const agentTurnId = first.message.agentTurnId ?? '';
  for (const page of [{}, { after: 5, limit: 1 }, { last: 10 }, { agentTurnId }])
    await store.listMessages('talker~c', page);
  await store.getSession('talker~c');
  for (const page of [{}, { after: 'talker' }, { of: 'talker' }, { of: 'talker', after: 'talker' }])
    await store.listSessions({ ...page, limit: 10 });
  await said({ policy: 'steer' });
  const agent = await store.getAgent('talker~c');
  await store.stopTurn(agent?.activeAgentTurnId ?? '', 'enough');
}

/** What comes for an agent between its turns. */
async function wakeUps(store: Store): Promise<void> {
  const trigger = { triggerId: 'new', name: 'x', tokenHash: 'new' };
  await store.createTrigger(LONG_AGENT, trigger);
  const woken = await store.fireTrigger('new', { text: 'news', key: 'k' });
  const { next } = woken?.handover ?? {};
  if (next) await store.stopTurn(next.agentTurnId, 'enough');
  for (const kind of ['wait', 'work_item', 'timer'] as const) {
    const due = { agentId: LONG_AGENT, of: kind, id: `${kind}-none`, dueAt: 1 };
    await store.fireWake(due);
    await store.putOffWake(due, 2);
  }
  await store.cancelTimer(LONG_AGENT, 'timer-none');
  await store.revokeTrigger(LONG_AGENT, 'new');
  await store.dropDeliveries(1, 10);
  await store.dropChunks(1, 10);
  await store.setLifecycle(LONG_AGENT, 'stopped', 'enough');
  await store.setLifecycle(LONG_AGENT, 'started', '');
}

const BACKENDS = [
  {
    name: 'SQLite',
    fresh: async () => `sqlite:${join(mkdtempSync(join(tmpdir(), 'agentturn-plans-')), 'store.db')}`,
    listen: listenToSqlite,
    planner: async (url: string) => sqlitePlanner(url),
  },
  {
    name: 'PostgreSQL',
    fresh: freshSchemaUrl,
    listen: listenToPostgres,
    planner: postgresPlanner,
  },
] as const;

describe.each(BACKENDS)('the statements of a turn on $name', ({ fresh, listen, planner: open }) => {
  let planner: Planner;
  let statements: readonly Sent[] = [];

  beforeAll(async () => {
    const { url } = await seededStore(await fresh(), TURNS);
    const db = await openRaw(url);
    for (const statement of MORE) await db.execute(statement);
    await db.close();
    const store = await openStore(url);
    const listener = listen();
    try {
      const rounds = new Rounds(store);
      await rounds.turns(agentIdAt(7));
      await rounds.turns(LONG_AGENT, LONG_BOX);
      await rounds.supervise();
      await rounds.read(agentIdAt(7));
      await unusual(store);
      await chats(store);
    } finally {
      listener.stop();
      await store.close();
    }
    statements = [...listener.sent.values()].filter(({ text }) => isPlanned(text));
    planner = await open(url);
  }, LONGEST_MS);
  afterAll(() => planner?.close());

  test.each([
    ['with statistics', true],
    ['without', false],
  ])(
    'read no table as a whole, and find no more by an index than they need, %s (T1, K15)',
    async (_, analysed) => {
      await (analysed ? planner.analyze() : planner.forget());
      const problems: string[] = [];
      for (const sent of statements)
        for (const plan of await planner.plans(sent)) problems.push(...problemsOf(sent, plan));
      expect(problems).toEqual([]);
      expect(statements.length).toBeGreaterThan(50);
    },
    LONGEST_MS,
  );
});
