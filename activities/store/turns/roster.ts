/** The roster: what is known of an agent besides its turns. */

import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { AgentLifecycle } from '../../../workflows/protocol/turn.ts';
import type { Reader, Tx } from '../context.ts';
import { insertRows, prepared } from '../prepared.ts';
import type { HeadRow } from '../schema/rows.ts';

/** What the roster says of an agent. */
export interface RosterEntry {
  /** The profile of its turns where a request names none. */
  readonly profile: string;
  readonly lifecycle: AgentLifecycle;
  /** The agent that made it by delegation; null for one that a request from outside made. */
  readonly parent_agent_id: string | null;
  /** Whose agent it is; null for one of the operators. */
  readonly tenant: string | null;
  /** The agent of the tree that it is of, which a request from outside made. */
  readonly root_agent_id: string;
}

/** A query for the roster entry of an agent. */
export const selectRosterEntry = ({ db }: Reader, agentId: string) => entryOf(db, { agentId });

/** The columns of a roster entry. */
export const ENTRY = ['profile', 'lifecycle', 'parent_agent_id', 'tenant', 'root_agent_id'] as const;

const entryOf = prepared((db, agent: { agentId: string }) =>
  db.selectFrom('agents').select(ENTRY).where('agent_id', '=', agent.agentId),
);

/** The error for an agent that is not on the roster. */
export const agentNotFound = (agentId: string): CodedError =>
  new CodedError(
    'agent_not_found',
    `there is no agent ${agentId} in this store: an agent is there from its first request on; check the id`,
  );

/** The roster entry of an agent; undefined for one that never accepted a turn. */
export const rosterEntry = (reader: Reader, agentId: string): Promise<RosterEntry | undefined> =>
  selectRosterEntry(reader, agentId).executeTakeFirst();

/** What is known of an agent that a turn is accepted for. */
export interface NewAgent {
  readonly profile: string;
  /** The agent that makes it by delegation, and the first of its tree; null for a request from outside. */
  readonly parent: { readonly agentId: string; readonly rootAgentId: string } | null;
  /** Whose agent it is; null for one of the operators. */
  readonly tenant: string | null;
}

/** Puts the agent of this head on the roster, unless it is there; returns its head, whose new status the caller writes. */
export async function enrol(tx: Tx, head: HeadRow, { profile, parent, tenant }: NewAgent): Promise<HeadRow> {
  const { agent_id, agent_status } = head;
  const lineage = { parent_agent_id: parent?.agentId ?? null, root_agent_id: parent?.rootAgentId ?? agent_id };
  const entry = { agent_id, profile, ...lineage, tenant, created_at: tx.at };
  await insertRows(tx.db, 'agents', [entry], ['agent_id']);
  return agent_status === 'booting' ? { ...head, agent_status: nextStatus(agent_status, 'enrol') } : head;
}
