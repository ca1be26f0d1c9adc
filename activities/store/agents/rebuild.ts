/**
 * Building anew what the head of an agent says of rows that lie elsewhere: counts, sums, times, its status. The rows decide; the head is the copy
 * that is read often.
 */

import { isOneShotAgent } from '../../../workflows/agent-state/one-shot.ts';
import type { AgentStatus } from '../../../workflows/agent-state/status.ts';
import { addUsage, NO_USAGE, type Usage } from '../../../workflows/protocol/turn.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { constant, type HeadRow } from '../schema/rows.ts';
import { lockHead, updateHead } from '../turns/head.ts';
import { rosterEntry } from '../turns/roster.ts';
import { spentBy } from '../turns/terminal.ts';
import { countedKept } from './came.ts';
import { agentFacts, restingAs } from './own-turns.ts';
import { setDueTimes } from './work.ts';

/** Turns that are read at a time. */
const PAGE = 1_000;

/** Builds the head of an agent anew; the names of what was wrong, and null for an agent that is not there. */
export const rebuildAgent = (ctx: StoreContext, agentId: string): Promise<readonly string[] | null> =>
  write(ctx, agentId, async (tx) => {
    const entry = await rosterEntry(tx, agentId);
    if (!entry) return null;
    const head = await lockHead(tx, agentId);
    const change: Partial<HeadRow> = {
      ...(await waitingOf(tx, head)),
      ...(await totalsOf(tx, agentId)),
      has_work: (await hasWork(tx, agentId)) ? 1 : 0,
      ...(await countedKept(tx, agentId)),
    };
    const after = { ...head, ...change };
    const isStopped = entry.lifecycle === 'stopped';
    const agent_status = isStopped ? 'stopped' : await statusOf(tx, after);
    const one_shot_ended = hasEndedOneShot({ ...after, agent_status }) ? 1 : 0;
    const wrong = Object.entries({ ...change, agent_status, one_shot_ended }).filter(
      ([name, value]) => !isSame(head[name as keyof HeadRow], value),
    );
    if (wrong.length > 0) await updateHead(tx, agentId, Object.fromEntries(wrong));
    if (after.has_work === 1) await setDueTimes(tx, agentId, entry.lifecycle);
    return wrong.map(([name]) => name);
  });

async function waitingOf({ db }: Tx, { active_agent_turn_id: active }: HeadRow) {
  if (active === null) return { waiting_tool_count: 0, resume_deadline: null };
  const { count, deadline } = await db
    .selectFrom('turn_waiting')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.min<number | null>('deadline').as('deadline')])
    .where('agent_turn_id', '=', active)
    .where('status', '=', constant('waiting'))
    .executeTakeFirstOrThrow();
  return { waiting_tool_count: Number(count), resume_deadline: deadline === null ? null : Number(deadline) };
}

/** What the ended turns of the agent have spent that were leased, and which of them was the last. */
async function totalsOf({ db }: Tx, agentId: string) {
  let usage: Usage = NO_USAGE;
  let cost: number | null = 0;
  let last: { readonly id: string; readonly epoch: number } | null = null;
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom('turns')
      .select(['agent_turn_id', 'accept_seq', 'turn_epoch', 'usage', 'cost', 'started_at', 'ended_at'])
      .where('agent_id', '=', agentId)
      .where('accept_seq', '>', after)
      .orderBy('accept_seq')
      .limit(PAGE)
      .execute();
    for (const row of rows) {
      if (row.turn_epoch === null || row.ended_at === null) continue;
      usage = addUsage(usage, spentBy(row));
      cost = cost === null || row.cost === null ? null : cost + row.cost;
      if (row.started_at !== null && (last === null || row.turn_epoch > last.epoch))
        last = { id: row.agent_turn_id, epoch: row.turn_epoch };
    }
    after = rows.at(-1)?.accept_seq ?? after;
    if (rows.length < PAGE) break;
  }
  return {
    total_input: usage.input,
    total_output: usage.output,
    total_cached: usage.cached,
    total_estimated: usage.estimated ? 1 : 0,
    total_cost: cost,
    last_agent_turn_id: last?.id ?? null,
  };
}

async function hasWork({ db }: Tx, agentId: string): Promise<boolean> {
  for (const table of ['work_items', 'waits', 'timers', 'triggers'] as const) {
    const row = await db
      .selectFrom(table)
      .select('agent_id')
      .where('agent_id', '=', agentId)
      .limit(1)
      .executeTakeFirst();
    if (row) return true;
  }
  return false;
}

const hasEndedOneShot = ({ agent_id, agent_status, accept_seq, has_work }: HeadRow): boolean =>
  isOneShotAgent(agent_id) && agent_status === 'asleep' && accept_seq === 1 && has_work === 0;

/** What an agent does that an operator has not stopped. */
async function statusOf(tx: Tx, head: HeadRow): Promise<AgentStatus> {
  if (head.active_agent_turn_id !== null) return 'awake_running';
  const queued = await tx.db
    .selectFrom('turns')
    .select('agent_turn_id')
    .where('agent_id', '=', head.agent_id)
    .where('status', '=', constant('queued'))
    .limit(1)
    .executeTakeFirst();
  // One that was started, or was given something to do, and has done nothing since.
  if (queued || head.agent_status === 'awake_idle') return 'awake_idle';
  const { closure } = await agentFacts(tx, head);
  return restingAs(closure);
}

/** Sums of costs in another order differ in their last digits. */
const CENT_OF_NOTHING = 1e-9;

const isSame = (a: unknown, b: unknown): boolean =>
  a === b || (typeof a === 'number' && typeof b === 'number' && Math.abs(a - b) < CENT_OF_NOTHING);
