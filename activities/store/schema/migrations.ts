/**
 * The schema of both backends, and how a store comes to have it.
 *
 * Invariants
 * 1. One transaction under the backend's lock applies all migrations that are missing, so that several processes may start at once
 *    (Kysely's own migrator takes no lock and no transaction on SQLite).
 * 2. A store that lacks none is opened without that lock, also while another process holds it.
 * 3. A migration is never changed once a release has it: what comes later is another one.
 */
import { randomUUID } from 'node:crypto';
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Tables } from './rows.ts';

/** How a backend differs where the schema is concerned. */
export interface SchemaDialect {
  /** Column type of a self-numbering primary key. */
  readonly autoId: 'integer primary key autoincrement' | 'bigserial primary key';
  /** Column type of counters and epoch ms. */
  readonly int: 'integer' | 'bigint';
  /** Waits until no other process changes the schema, and holds that lock to the end of the transaction. */
  lockSchema(trx: Transaction<Tables>): Promise<void>;
  /** A statement that gives a row when the table of the schema's version is there. */
  readonly findVersionTable: RawBuilder<unknown>;
}

/** The statements of a migration, or of a part of it. */
type Migration = (dialect: SchemaDialect) => readonly string[];

/** Cards by their ids. */
const cards: Migration = ({ int }) => [
  `create table cards (card_id text primary key, type text not null, content text not null, author text not null,
     agent_turn_id text, step_index ${int}, call_id text, agent_id text, tenant text, token_count ${int} not null, bytes ${int} not null,
     created_at ${int} not null)`,
  // The single winner of a call, whoever reports it (T14); the call first, so that a result of any turn is found (W11).
  `create unique index cards_one_result_per_call on cards (call_id, agent_turn_id) where type = 'tool.result'`,
  // The call before the type: a call and its result are found however many the turn has.
  `create index cards_by_turn on cards (agent_turn_id, call_id, type)`,
];

/** Boxes, the places of cards in them, and the sizes of earlier turns. */
const boxes: Migration = ({ int }) => [
  `create table boxes (box_id text primary key, kind text not null, owner_agent_id text, agent_id text, tenant text, parent_ids text not null,
     created_at ${int} not null)`,
  `create table box_cards (box_id text not null, seq ${int} not null, card_id text not null, hidden_reason text,
     hidden_by text, primary key (box_id, seq), unique (card_id, box_id))`,
  // What is in view: however many cards have left it, nobody who renders a box reads them.
  `create index box_cards_shown on box_cards (box_id, seq) where hidden_reason is null`,
  // How much of a prompt each earlier turn takes (K15).
  `create table box_units (box_id text not null, from_seq ${int} not null, to_seq ${int} not null, tokens ${int} not null,
     results text not null, primary key (box_id, to_seq))`,
];

/** The roster, the profiles, and the head of each agent. */
const agents: Migration = ({ int }) => [
  // What the operator wants of the agent: a stopped one accepts and leases nothing (T10).
  `create table agents (agent_id text primary key, profile text not null, lifecycle text not null default 'started',
     parent_agent_id text, tenant text, root_agent_id text not null, created_at ${int} not null)`,
  // The agents of a tenant, however many others have.
  `create index agents_by_tenant on agents (tenant, agent_id) where tenant is not null`,
  `create table profiles (hash text primary key, name text not null, snapshot text not null, created_at ${int} not null)`,
  `create table profile_heads (name text primary key, hash text not null, revision ${int} not null, updated_at ${int} not null)`,
  `create table agent_state_head (agent_id text primary key, status text not null, agent_status text not null, turn_epoch ${int} not null,
     active_agent_turn_id text, acting text, output_box_id text, waiting_tool_count ${int} not null,
     resume_deadline ${int}, has_work ${int} not null default 0, current_work_item_id text, came ${int} not null default 0, came_bytes ${int} not null default 0, closure text,
     autonomous_turns ${int} not null default 0, last_agent_turn_id text, one_shot_ended ${int} not null default 0,
     total_input ${int} not null default 0, total_output ${int} not null default 0, total_cached ${int} not null default 0,
     total_estimated ${int} not null default 0, total_cost double precision, accept_seq ${int} not null, event_seq ${int} not null, updated_at ${int} not null,
     recorded_at ${int} not null)`,
  // Lists leave one-shot agents out that have ended, however many there are, and read no row of them.
  `create index heads_by_one_shot_ended on agent_state_head (one_shot_ended, agent_id)`,
];

/** What agents have between their turns: work, and what they wait for. */
const work: Migration = ({ int }) => [
  `create table work_items (work_item_id text primary key, agent_id text not null, revision ${int} not null, objective text not null,
     state text not null, plan_status text not null, todo_list text not null, blocked_by text not null, recheck_at ${int}, due_at ${int},
     set_at ${int} not null, result_summary text, continued_revision ${int} not null, created_at ${int} not null, updated_at ${int} not null)`,
  `create index work_items_open on work_items (agent_id, created_at, work_item_id) where state = 'open'`,
  `create index work_items_by_agent on work_items (agent_id, created_at, work_item_id)`,
  `create index work_items_due on work_items (due_at) where due_at is not null`,
  // What was counted by a clock that was ahead stands at the end of these.
  `create index work_items_set on work_items (set_at) where due_at is not null`,
  // Of whom something of the kind is read at all.
  `create index heads_with_work on agent_state_head (agent_id) where has_work = 1`,
  `create table waits (wait_id text primary key, agent_id text not null, work_item_id text, kind text not null, resource text,
     reason text not null, status text not null, recheck_at ${int}, deadline ${int} not null, due_at ${int},
     set_at ${int} not null, agent_turn_id text not null, created_at ${int} not null, ended_at ${int}, ended_by text)`,
  `create index waits_by_agent on waits (agent_id, created_at, wait_id)`,
  `create index waits_active on waits (agent_id, created_at, wait_id) where status = 'active'`,
  `create index waits_due on waits (due_at) where due_at is not null`,
  `create index waits_set on waits (set_at) where due_at is not null`,
  // The waits that the end of a turn makes due.
  `create index waits_for_task on waits (resource) where status = 'active' and kind = 'task'`,
  `create table timers (timer_id text primary key, agent_id text not null, reason text not null, next_at ${int}, every_ms ${int}, due_at ${int},
     set_at ${int} not null, fired ${int} not null, cancelled_at ${int}, created_at ${int} not null)`,
  `create index timers_active on timers (agent_id, created_at, timer_id) where next_at is not null`,
  `create index timers_due on timers (due_at) where due_at is not null`,
  `create index timers_set on timers (set_at) where due_at is not null`,
  `create table triggers (trigger_id text primary key, agent_id text not null, name text not null, token_hash text not null unique,
     hits ${int} not null, last_hit_at ${int}, revoked_at ${int}, created_at ${int} not null)`,
  `create index triggers_by_agent on triggers (agent_id, created_at, trigger_id)`,
  `create index triggers_active on triggers (agent_id, created_at, trigger_id) where revoked_at is null`,
  `create table trigger_deliveries (trigger_id text not null, delivery_key text not null, created_at ${int} not null,
     primary key (trigger_id, delivery_key))`,
  `create index trigger_deliveries_by_age on trigger_deliveries (created_at)`,
  `create table wakes (agent_id text not null, place ${int} not null, kind text not null, source text not null, reason text not null,
     count ${int} not null, card_id text, bytes ${int} not null, due ${int} not null, taken_by text, created_at ${int} not null,
     primary key (agent_id, place))`,
  `create index wakes_kept on wakes (agent_id, place) where taken_by is null`,
  `create index wakes_kept_by_source on wakes (agent_id, kind, source) where taken_by is null`,
  `create index wakes_by_card on wakes (card_id) where card_id is not null`,
  `create table work_effects (agent_turn_id text not null, call_id text not null, step_index ${int} not null,
     call_index ${int} not null, effect text not null, primary key (agent_turn_id, call_id))`,
];

/** Turns, found by their queue, their parent and their check. */
const turns: Migration = ({ int }) => [
  // `settlement` is set when the parent's call waits for this turn: pending, due once it has ended, then the answer to its report (T30).
  // What a turn is given it may spend with all that it delegates: a delegated one has a share of its caller's budgets (K20).
  `create table turns (agent_turn_id text primary key, agent_id text not null, tenant text, accept_seq ${int} not null, lane ${int} not null,
     turn_epoch ${int}, status text not null, reason text, error_code text, request text not null, request_digest text not null,
     idempotency_key text, instruction_card_id text not null, chat_id text, not_before ${int}, context_box_id text, output_box_id text, instruction_seq ${int},
     earlier text, budgets text, given_tokens ${int}, given_cost double precision, profile_name text not null, profile_hash text,
     worker_target text, deliverable_card_id text, depth ${int} not null, trace_id text, correlation_id text,
     parent_agent_id text, parent_agent_turn_id text, parent_step_index ${int}, parent_call_id text, settlement text,
     on_parent_end text, check_at ${int}, check_every ${int}, woken_at ${int}, no_workers_since ${int}, workers_since ${int},
     ends_by ${int}, usage text not null, cost double precision, engine text, step_count ${int} not null,
     accepted_at ${int} not null, leased_at ${int}, started_at ${int}, ended_at ${int}, unique (agent_id, accept_seq))`,
  `create unique index turns_idempotency on turns (agent_id, idempotency_key) where idempotency_key is not null`,
  `create index turns_queue on turns (agent_id, lane, accept_seq) where status = 'queued'`,
  `create index turns_by_parent on turns (parent_agent_turn_id) where parent_agent_turn_id is not null`,
  `create index turns_open_by_parent_agent on turns (parent_agent_id, accepted_at)
     where parent_agent_id is not null and status in ('queued', 'dispatched', 'running', 'suspended')`,
  // The list of all turns by age: new ones come at its end.
  `create index turns_by_age on turns (accepted_at, agent_turn_id)`,
  `create index turns_of_tenant_by_age on turns (tenant, accepted_at, agent_turn_id) where tenant is not null`,
  // What is due: however many agents and ended turns there are, the supervisor reads only this.
  `create index turns_due on turns (check_at) where check_at is not null`,
  `create index turns_open on turns (agent_turn_id) where status in ('running', 'suspended')`,
];

/** Steps, and what becomes of calls and messages. */
const calls: Migration = ({ int }) => [
  `create table agent_steps (agent_turn_id text not null, step_index ${int} not null, status text not null, model text,
     llm_usage text, llm_response_cost double precision, latency_ms ${int}, first_token_ms ${int}, finish_reason text,
     tool_call_ids text not null, openings ${int} not null, led_by text, outcome text, outage text, started_at ${int} not null, ended_at ${int},
     primary key (agent_turn_id, step_index))`,
  `create table turn_waiting (agent_turn_id text not null, call_id text not null, step_index ${int} not null,
     kind text not null, tool_name text not null, deadline ${int} not null, status text not null, result_card_id text,
     created_at ${int} not null, primary key (agent_turn_id, call_id))`,
  // What waits and what is unread, however many calls of the turn have waited.
  `create index turn_waiting_by_status on turn_waiting (agent_turn_id, status)`,
  // What waits in the whole store, the oldest first.
  `create index turn_waiting_open on turn_waiting (created_at, agent_turn_id, call_id) where status = 'waiting'`,
  `create table deferred_reports (agent_turn_id text not null, call_id text not null, report text not null,
     defer_reason text not null, retry_count ${int} not null, next_retry_at ${int} not null, created_at ${int} not null,
     primary key (agent_turn_id, call_id))`,
  `create table dispatch_claims (agent_turn_id text not null, call_id text not null, attempt ${int} not null,
     made_by text, started_at ${int} not null, outcome text, duration_ms ${int}, progress text,
     primary key (agent_turn_id, call_id, attempt))`,
  `create table turn_inbox (agent_turn_id text not null, kind text not null, ref text not null, seq ${int} not null,
     status text not null, step_index ${int}, created_at ${int} not null, primary key (agent_turn_id, kind, ref),
     unique (agent_turn_id, seq))`,
];

/** Questions to people. */
const approvals: Migration = ({ int }) => [
  `create table approvals (agent_turn_id text not null, call_id text not null, agent_id text not null, root_turn_id text not null,
     kind text not null, tool_name text not null, reason text not null, approvers text not null, escalate_to text,
     escalated_at ${int}, deadline ${int} not null, status text not null, answered_by text, comment text, arguments text,
     budget text, behind_seq ${int}, created_at ${int} not null, answered_at ${int}, primary key (agent_turn_id, call_id))`,
  // Each list in its order, so that a page costs the same wherever it begins.
  `create index approvals_waiting on approvals (created_at, agent_turn_id, call_id) where status = 'waiting'`,
  `create index approvals_of_agent_waiting on approvals (agent_id, created_at, agent_turn_id, call_id) where status = 'waiting'`,
  `create index approvals_by_age on approvals (created_at, agent_turn_id, call_id)`,
  `create index approvals_by_agent on approvals (agent_id, created_at, agent_turn_id, call_id)`,
  `create index approvals_by_root on approvals (root_turn_id, created_at, agent_turn_id, call_id)`,
  `create index approvals_by_call on approvals (call_id)`,
];

/** Chat sessions and their messages. */
const chats: Migration = ({ int }) => [
  `create table chat_sessions (agent_id text primary key, session_id text not null unique, of_agent text not null, chat_id text not null,
     first_sender text not null, several_senders ${int} not null, last_seq ${int} not null, created_at ${int} not null,
     updated_at ${int} not null)`,
  `create index chat_sessions_of on chat_sessions (of_agent, agent_id)`,
  `create table chat_messages (agent_id text not null, seq ${int} not null, event_id text not null, chat_id text not null,
     idempotency_key text not null, digest text not null, sender text not null, payload text not null, bytes ${int} not null,
     policy text not null, placement text not null, agent_turn_id text, card_id text not null, reason text, trace_id text not null,
     correlation_id text not null, causation_id text, sender_seq ${int}, timestamp_ms ${int} not null, created_at ${int} not null,
     primary key (agent_id, seq), unique (agent_id, idempotency_key), unique (agent_id, event_id))`,
  `create index chat_messages_by_turn on chat_messages (agent_turn_id, seq)`,
];

/** Edges and events. */
const log: Migration = ({ autoId, int }) => [
  `create table execution_edges (edge_key text primary key, primitive text not null, phase text not null, kind text,
     source_agent_id text, source_agent_turn_id text, source_step_index ${int}, target_agent_id text,
     target_agent_turn_id text, call_id text, call_index ${int}, correlation_id text, depth ${int} not null, trace_id text,
     metadata text not null, created_at ${int} not null)`,
  `create index edges_by_source on execution_edges (source_agent_turn_id)`,
  `create index edges_by_target on execution_edges (target_agent_turn_id)`,
  `create table events (id ${autoId}, agent_id text not null, seq ${int} not null, agent_turn_id text,
     subject text not null, type text not null, payload text not null, message_id text, topic text, created_at ${int} not null,
     unique (agent_id, seq))`,
  // What webhooks tell, by age and of each agent, however much else there is.
  `create index events_with_topic on events (id) where topic is not null`,
  `create index events_of_agent_with_topic on events (agent_id, seq) where topic is not null`,
  // Exactly one task event per turn (T2), whatever else goes wrong.
  `create unique index events_one_task_per_turn on events (agent_turn_id) where type = 'task'`,
  `create index events_by_turn on events (agent_turn_id, seq)`,
  `create unique index events_one_per_message on events (message_id) where message_id is not null`,
];

/** Answers as they are written, before their steps are committed (W16). */
const chunks: Migration = ({ int }) => [
  `create table chunks (agent_turn_id text not null, seq ${int} not null, step_index ${int} not null, attempt ${int} not null,
     body text not null, created_at ${int} not null, primary key (agent_turn_id, seq))`,
  // One entry for each turn that has chunks: those that are to be dropped are found without reading the rest.
  `create index chunks_by_age on chunks (created_at) where seq = 1`,
];

/** Leases of services. */
const leases: Migration = ({ int }) => [
  `create table svc_leases (service text primary key, holder text not null, expires_at ${int} not null, since ${int} not null,
     listed_until ${int})`,
];

/** What webhooks have been told. */
const webhooks: Migration = ({ int }) => [
  `create table webhooks (webhook_id text primary key, searched_id ${int} not null, sent ${int} not null, failed ${int} not null,
     last_sent_at ${int}, last_failed_at ${int}, last_error text)`,
  `create table webhook_cursors (webhook_id text not null, agent_id text not null, seq ${int} not null, event_id ${int} not null,
     due_at ${int}, failures ${int} not null, primary key (webhook_id, agent_id))`,
  `create index webhook_cursors_due on webhook_cursors (webhook_id, due_at) where due_at is not null`,
  `create index webhook_cursors_told on webhook_cursors (webhook_id, event_id) where due_at is null`,
];

const firstSchema: Migration = (dialect) =>
  [cards, boxes, agents, work, turns, calls, approvals, chats, log, chunks, leases, webhooks].flatMap((part) =>
    part(dialect),
  );

const MIGRATIONS: readonly Migration[] = [firstSchema];

/** Applies the migrations that the store lacks. */
export async function migrate(db: Kysely<Tables>, dialect: SchemaDialect): Promise<void> {
  // Without the lock: a store that somebody else writes to, or holds, can still be opened.
  const known = await dialect.findVersionTable.execute(db);
  if (known.rows.length > 0 && (await versionOf(db)) === MIGRATIONS.length) return;
  await db.transaction().execute(async (trx) => {
    await dialect.lockSchema(trx);
    await sql`create table if not exists schema_version (version integer not null, store_id text not null)`.execute(
      trx,
    );
    const version = await versionOf(trx);
    const applied = version ?? 0;
    for (const migration of MIGRATIONS.slice(applied)) {
      for (const statement of migration(dialect)) await sql.raw(statement).execute(trx);
    }
    if (version === null)
      await sql`insert into schema_version (version, store_id) values (${MIGRATIONS.length}, ${randomUUID()})`.execute(
        trx,
      );
    else if (applied < MIGRATIONS.length)
      await sql`update schema_version set version = ${MIGRATIONS.length}`.execute(trx);
  });
}

/** The migrations that were applied; null where none was yet. */
async function versionOf(db: Kysely<Tables>): Promise<number | null> {
  const { rows } = await sql<{ version: number }>`select version from schema_version`.execute(db);
  return rows[0]?.version ?? null;
}
