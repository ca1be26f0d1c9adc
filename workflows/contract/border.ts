/**
 * The border around what a caller sees. Every agent has a tenant, or belongs to the operators, and everything of an agent is where the agent
 * is: its turns, cards, boxes, sessions, triggers, questions, and the agents that it makes by delegation.
 *
 * Invariant: the id of an agent of a tenant begins with the tenant's name and `~`, so that no tenant takes an id of another one.
 */
import { CodedError } from '../protocol/failures.ts';

/** What the name of a tenant looks like: as an id of an agent, but without `~`, which ends it. */
export const TENANT_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

/** What a caller sees, and what it may start. The store answers for everything else as if it were not there. */
export interface Border {
  /** The tenant whose agents it sees; null for those of the operators alone, absent for all agents. */
  readonly tenant?: string | null;
  /** Beginnings of agent ids, as `isWithin` has them: those agents, what they have made, and nothing else. All when left out. */
  readonly agentPrefixes?: readonly string[];
  /** The profiles that it may start. */
  readonly profiles?: readonly string[];
  /**
   * Whether it may give an agent a turn of another profile than its own and, where `profiles` is left out, start any profile. One that may
   * not goes on with agents that a request has made; and where its prefixes name agents, it makes those that are named like their profile.
   */
  readonly anyProfile: boolean;
}

/** The border of who sees and may do everything. */
export const NO_BORDER: Border = { anyProfile: true };

/** What is said of a border where tokens and webhooks are kept. */
export interface BorderTerms {
  readonly tenant?: string | undefined;
  /** Beginnings of agent ids; those of a tenant may leave its name out. */
  readonly agents?: readonly string[] | undefined;
  readonly profiles?: readonly string[] | undefined;
  readonly anyProfile: boolean;
}

/** The border of a token, or of a webhook. Who sees a part, and of no tenant, sees the part of the operators: what has no tenant is theirs. */
export function borderFrom({ tenant, agents, profiles, anyProfile }: BorderTerms): Border {
  const of = tenant ?? (agents ? null : undefined);
  return {
    ...(of === undefined ? {} : { tenant: of }),
    ...(agents ? { agentPrefixes: agents.map((prefix) => agentIdFor(of, prefix)) } : {}),
    ...(profiles ? { profiles } : {}),
    anyProfile,
  };
}

/** A border within another one: it shows no more than that one does, and starts no more. Errors: `permission_denied` for one that lies outside. */
export function narrowed(outer: Border, inner: Border): Border {
  const anyProfile = outer.anyProfile && inner.anyProfile;
  const profiles = outer.profiles ?? inner.profiles;
  const started = { ...(profiles ? { profiles } : {}), anyProfile };
  if (seesAll(outer)) return { ...inner, ...started };
  if (inner.tenant !== undefined && inner.tenant !== outer.tenant)
    throw new CodedError('permission_denied', `this client is not for ${inner.tenant ?? 'agents of the operators'}`);
  return { ...outer, ...started };
}

/** Whether a border leaves nothing out of view. */
export const seesAll = ({ tenant, agentPrefixes }: Border): boolean =>
  tenant === undefined && agentPrefixes === undefined;

/**
 * Whether the id is that prefix, or goes on behind it with `~`: `acme` has `acme` and `acme~1`, and not `acme2`. A prefix that ends with `-`,
 * `.`, `_` or `~` has all that goes on behind it.
 */
export const isWithin = (agentId: string, prefix: string): boolean =>
  agentId === prefix || agentId.startsWith(openEnded(prefix));

/** The prefix as all ids behind it begin. */
export const openEnded = (prefix: string): string => (/[A-Za-z0-9]$/.test(prefix) ? `${prefix}~` : prefix);

/** The tenant, if it is the name of one. Errors: `invalid_request`. */
export function checkedTenant(tenant: string): string {
  if (TENANT_PATTERN.test(tenant)) return tenant;
  throw new CodedError('invalid_request', `tenant ${JSON.stringify(tenant)} does not match ${TENANT_PATTERN}`);
}

/** The id of the agent that a tenant calls `name`: it may leave the beginning out that all of its ids have. */
export const agentIdFor = (tenant: string | null | undefined, name: string): string =>
  !tenant || name.startsWith(`${tenant}~`) ? name : `${tenant}~${name}`;

/** What the agent is called within its tenant, and so the profile that it has where nobody names one. */
export const nameWithin = (tenant: string | null, agentId: string): string =>
  tenant !== null && agentId.startsWith(`${tenant}~`) ? agentId.slice(tenant.length + 1) : agentId;

/** Whether a caller may make an agent of this id: nothing else is known of it yet. */
export const mayName = ({ tenant, agentPrefixes }: Border, agentId: string): boolean =>
  (!tenant || agentId.startsWith(`${tenant}~`)) && (agentPrefixes?.some((prefix) => isWithin(agentId, prefix)) ?? true);

/** What is known of an agent that a profile is to be started for. */
export interface ProfiledAgent {
  readonly agentId: string;
  readonly tenant: string | null;
  /** The profile that it has; null for an agent that is not there yet. */
  readonly profile: string | null;
  /** Whether another agent has made it. */
  readonly isDelegated: boolean;
}

/** Whether a caller may start a turn of this profile for the agent. */
export function mayStart(
  { profiles, agentPrefixes, anyProfile }: Border,
  agent: ProfiledAgent,
  profile: string,
): boolean {
  if (profiles !== undefined && !profiles.includes(profile)) return false;
  if (anyProfile) return true;
  if (agent.profile !== null) return agent.profile === profile && (profiles !== undefined || !agent.isDelegated);
  return profiles !== undefined || (agentPrefixes !== undefined && profile === nameWithin(agent.tenant, agent.agentId));
}
