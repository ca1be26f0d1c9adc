/** What is refused at a border before anything is written: agents that a caller does not see, profiles that it may not start, cards and boxes of others. */
import { type Border, mayName, mayStart, seesAll } from '../../../workflows/contract/border.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Reader } from '../context.ts';
import { inView, seesAgent, tenantOf } from '../reads/border.ts';
import type { Refusal } from './refusal.ts';
import type { RosterEntry } from './roster.ts';

/** An agent that something is wanted of. */
export interface WantedAgent {
  readonly agentId: string;
  /** Undefined for one that would be made. */
  readonly entry: Omit<RosterEntry, 'lifecycle'> | undefined;
}

/** The tenant of the agent, also of one that the caller would make. */
export const tenantAt = (border: Border, { entry }: Pick<WantedAgent, 'entry'>): string | null =>
  entry ? entry.tenant : (border.tenant ?? null);

/** Why the caller does not have the agent; null when it does. */
export function agentRefusal(border: Border, { agentId, entry }: WantedAgent): Refusal | null {
  if (entry ? seesAgent(border, entry) : mayName(border, agentId)) return null;
  return { code: 'agent_not_found', message: `there is no agent ${agentId} for this caller; check the id` };
}

/**
 * Why an agent of that tenant cannot be made under this id; null when it can. Ids of a tenant are those of chats with an agent of its name: where
 * the operators have such an agent there is no tenant called like it, and where there is the tenant they make none of its ids.
 */
export async function namingRefusal({ db }: Reader, agentId: string, tenant: string | null): Promise<Refusal | null> {
  const [first = '', ...rest] = agentId.split('~');
  if (tenant === null) {
    if (rest.length === 0) return null;
    const taken = await db
      .selectFrom('agents')
      .select('agent_id')
      .where('tenant', '=', first)
      .limit(1)
      .executeTakeFirst();
    const message = `ids that begin with ${first}~ are those of tenant ${first}: act for it, or choose another id`;
    return taken ? { code: 'invalid_request', message } : null;
  }
  const named = db.selectFrom('agents').select('agents.agent_id').where('agents.tenant', 'is', null).limit(1);
  const operators =
    (await named.where('agents.agent_id', '=', tenant).executeTakeFirst()) ??
    (await named
      .innerJoin('chat_sessions', 'chat_sessions.agent_id', 'agents.agent_id')
      .where('chat_sessions.of_agent', '=', tenant)
      .executeTakeFirst());
  const message = `${tenant} is an agent of the operators, and can be no tenant; choose another name for the tenant`;
  return operators ? { code: 'invalid_request', message } : null;
}

/** Why the caller may not start a turn of this profile for the agent; null when it may. */
export function startRefusal(border: Border, { agentId, entry }: WantedAgent, profile: string): Refusal | null {
  const tenant = tenantAt(border, { entry });
  const agent = {
    agentId,
    tenant,
    profile: entry?.profile ?? null,
    isDelegated: (entry?.parent_agent_id ?? null) !== null,
  };
  if (mayStart(border, agent, profile)) return null;
  const may =
    border.profiles?.join(', ') ??
    (agent.isDelegated ? 'none of an agent that another one has made' : "the agent's own");
  const message = `this caller may not start this profile for agent ${agentId}; it may start: ${may}`;
  return { code: 'permission_denied', message };
}

/** As `startRefusal`, for what is refused by an error. Errors: `permission_denied`. */
export function demandStart(border: Border, wanted: WantedAgent, profile: string): void {
  const refused = startRefusal(border, wanted, profile);
  if (refused) throw new CodedError(refused.code, refused.message);
}

/** Why the request may not name a card or a box; null when it may. One that is not there ends the turn, unless the caller has a border (T25). */
export async function referenceRefusal(
  reader: Reader,
  border: Border,
  { contextBoxId, outputBoxId }: Pick<EnqueueRequest, 'contextBoxId' | 'outputBoxId'>,
  tenant: string | null,
): Promise<Refusal | null> {
  for (const boxId of [contextBoxId, outputBoxId]) {
    if (boxId === undefined || (await mayUse(reader, border, { boxId }, tenant))) continue;
    return { code: 'box_unavailable', message: `there is no box ${boxId} for this caller; pass an existing one` };
  }
  return null;
}

/** Whether a card or a box may be used for an agent of that tenant: it is of the same one, or the operators give one of theirs. */
export async function mayUse(
  reader: Reader,
  border: Border,
  named: { readonly cardId: string } | { readonly boxId: string },
  tenant: string | null,
): Promise<boolean> {
  const whose = await tenantOf(reader, named);
  if (whose === undefined) return seesAll(border);
  return (whose === tenant || whose === null) && inView(reader, border, named);
}
