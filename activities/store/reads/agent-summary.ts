/** The summary of an agent, assembled from its rows when somebody asks (A5). */
import { sql } from 'kysely';
import { operatorHint } from '../../../workflows/agent-state/hints.ts';
import { scheduled } from '../../../workflows/agent-state/work-items.ts';
import type { AgentSummary, ChildSummary, TurnLine } from '../../../workflows/contract/agent-summary.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { addUsage, type TurnStatus, type Usage } from '../../../workflows/protocol/turn.ts';
import { waitView } from '../agents/lists.ts';
import { agentFacts } from '../agents/own-turns.ts';
import { triggersOf } from '../agents/triggers.ts';
import { selectActiveWaits } from '../agents/work.ts';
import { read, type StoreContext } from '../context.ts';
import { decoded } from '../schema/json.ts';
import type { Db, HeadRow } from '../schema/rows.ts';
import { profileAt, selectProfileHead } from '../turns/profiles.ts';
import { findTurn } from '../turns/turns.ts';
import { missingWorkers, postureOfRow, selectAgents } from './agents.ts';

const MOST_CHILDREN = 20;
const MOST_SHOWN = 100;
const MOST_TURNS = 10;

/** What an agent is at; null when it never accepted a turn. */
export const agentSummary = (ctx: StoreContext, agentId: string): Promise<AgentSummary | null> =>
  read(ctx, async (reader) => {
    const { db } = reader;
    const row = await selectAgents(db).where('agents.agent_id', '=', agentId).executeTakeFirst();
    if (!row) return null;
    const activeChildren = await childrenOf(db, agentId);
    const { work, closure } = await agentFacts(reader, row, activeChildren.length);
    const open = row.active_agent_turn_id;
    const active = (open === null ? undefined : await findTurn(reader, open)) ?? null;
    const head = await selectProfileHead(reader, row.profile).executeTakeFirst();
    const profile = await profileAt(reader, head).catch(() => null);
    const rests = active === null && Number(row.queued) === 0;
    const closed = rests ? closure : null;
    const child = row.parent_agent_id !== null;
    const { maxAutonomousTurns = null, model = null } = profile?.snapshot.profile ?? {};
    return {
      version: 1,
      identity: {
        agentId,
        kind: child ? 'child' : 'named',
        visibility: child ? 'private' : 'public',
        ownership: child ? 'parent_supervised' : 'self_owned',
        parentAgentId: row.parent_agent_id,
        profile: row.profile,
        createdAt: row.created_at,
      },
      agent: {
        status: row.agent_status,
        pending: Number(row.queued),
        turnIndex: row.accept_seq,
        currentTurn: active && { agentTurnId: active.agent_turn_id, status: active.status },
        head: {
          status: row.status,
          turnEpoch: row.turn_epoch,
          outputBoxId: row.output_box_id,
          waitingToolCount: row.waiting_tool_count,
          resumeDeadline: row.resume_deadline,
          waitingForWorkers: missingWorkers(row),
        },
        currentWorkItemId: row.current_work_item_id,
        autonomousTurns: row.autonomous_turns,
        came: row.came,
        eventSeq: row.event_seq,
      },
      schedulingPosture: postureOfRow(row, work),
      lifecycle: {
        acceptsExternalMessages: row.lifecycle !== 'stopped',
        operatorHint: operatorHint({
          agentId,
          status: row.agent_status,
          closure: closed,
          kept: row.came,
          autonomousTurns: row.autonomous_turns,
          maxAutonomousTurns,
        }),
      },
      model: { name: model?.name ?? null, ...totalsOf(row, active && decoded(active.usage), active?.cost ?? null) },
      closure: closed,
      execution: {
        workerTarget: active?.worker_target ?? null,
        workflowId: active && turnWorkflowId(agentId, active.agent_turn_id),
      },
      activeChildren,
      activeWaits: (await selectActiveWaits(db, agentId).limit(MOST_SHOWN).execute()).map(waitView),
      activeTimers: work.timers,
      activeExternalTriggers:
        row.has_work === 1 ? await triggersOf(db, agentId, { open: true, limit: MOST_SHOWN }) : [],
      workItems: scheduled(work.items, work.waits, work.currentId).slice(0, MOST_SHOWN),
      recentTurns: await recentTurns(db, agentId),
      updatedAt: row.updated_at,
      readAt: ctx.now(),
    };
  });

/** What all turns have spent: those that have ended, as the head counts them, and the open one. */
function totalsOf(
  head: HeadRow,
  open: Usage | null,
  openCost: number | null,
): Pick<AgentSummary['model'], 'usage' | 'cost'> {
  const { total_input: input, total_output: output, total_cached: cached, total_estimated, total_cost } = head;
  const ended: Usage = { input, output, cached, ...(total_estimated === 1 ? { estimated: true } : {}) };
  if (!open) return { usage: ended, cost: total_cost };
  const cost = total_cost === null || openCost === null ? null : total_cost + openCost;
  return { usage: addUsage(ended, open), cost };
}

/** Turns that others do for the agent and that have not ended, the newest first. */
async function childrenOf(db: Db, agentId: string): Promise<readonly ChildSummary[]> {
  const rows = await db
    .selectFrom('turns')
    .innerJoin('agent_state_head as head', 'head.agent_id', 'turns.agent_id')
    .select(['turns.agent_id', 'turns.agent_turn_id', 'turns.status', 'head.agent_status'])
    .where('turns.parent_agent_id', '=', agentId)
    .where('turns.status', 'in', OPEN)
    .orderBy('turns.accepted_at', 'desc')
    .limit(MOST_CHILDREN)
    .execute();
  return rows.map(({ agent_id, agent_turn_id, status, agent_status }) => ({
    agentId: agent_id,
    agentTurnId: agent_turn_id,
    status,
    agentStatus: agent_status,
  }));
}

/** As literals, so that the partial index is found. */
const OPEN = sql<TurnStatus>`('queued', 'dispatched', 'running', 'suspended')`;

async function recentTurns(db: Db, agentId: string): Promise<readonly TurnLine[]> {
  const rows = await db
    .selectFrom('turns')
    .select(['agent_turn_id', 'status', 'error_code', 'accepted_at', 'ended_at'])
    .where('agent_id', '=', agentId)
    .orderBy('accept_seq', 'desc')
    .limit(MOST_TURNS)
    .execute();
  return rows.map((row) => ({
    agentTurnId: row.agent_turn_id,
    status: row.status,
    errorCode: row.error_code,
    acceptedAt: row.accepted_at,
    endedAt: row.ended_at,
  }));
}
