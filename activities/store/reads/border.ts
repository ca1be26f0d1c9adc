/** What a border leaves in view: the one place of the store that decides it. */
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type Border, isWithin, openEnded, seesAll } from '../../../workflows/contract/border.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import type { Db } from '../schema/rows.ts';
import { rosterEntry } from '../turns/roster.ts';

/** What is known of an agent that a border is laid around. */
export interface Bordered {
  readonly tenant: string | null;
  readonly root_agent_id: string;
}

/** Whether a border leaves the agent in view: an agent that others have made is seen by who sees the first of its tree. */
export const seesAgent = ({ tenant, agentPrefixes }: Border, agent: Bordered): boolean =>
  (tenant === undefined || agent.tenant === tenant) &&
  (agentPrefixes?.some((prefix) => isWithin(agent.root_agent_id, prefix)) ?? true);

/** Whether an id is within one of the prefixes, as `isWithin` has it: compared as they are written, upper and lower case apart. */
function isWithinOne(column: string, prefixes: readonly string[]): RawBuilder<SqlBool> {
  const within = (prefix: string) => {
    const begin = openEnded(prefix);
    return sql`${sql.ref(column)} = ${prefix} or substr(${sql.ref(column)}, 1, ${sql.lit(begin.length)}) = ${begin}`;
  };
  return prefixes.length === 0 ? sql`1 = 0` : sql`(${sql.join(prefixes.map(within), sql` or `)})`;
}

const isTenant = (column: string, tenant: string | null): RawBuilder<SqlBool> =>
  tenant === null ? sql`${sql.ref(column)} is null` : sql`${sql.ref(column)} = ${tenant}`;

/** Conditions that all hold; one that holds always for none. */
const all = (conditions: readonly RawBuilder<SqlBool>[]): RawBuilder<SqlBool> =>
  conditions.length === 0 ? sql`1 = 1` : sql`(${sql.join(conditions, sql` and `)})`;

/** Whether the agent, whose id the column has, is in view. */
export function agentInView({ tenant, agentPrefixes }: Border, column: string): RawBuilder<SqlBool> {
  const conditions = [
    ...(tenant === undefined ? [] : [isTenant('seen.tenant', tenant)]),
    ...(agentPrefixes ? [isWithinOne('seen.root_agent_id', agentPrefixes)] : []),
  ];
  if (conditions.length === 0) return sql`1 = 1`;
  // Found by the index of a tenant's agents, however many others there are.
  if (tenant) return sql`${sql.ref(column)} in (select seen.agent_id from agents seen where ${all(conditions)})`;
  return sql`exists (select 1 from agents seen where seen.agent_id = ${sql.ref(column)} and ${all(conditions)})`;
}

/**
 * Whether the turn is in view: it is of an agent that is, or such an agent's turn has made it, itself or through others. `turns` is what the
 * table of turns is called in the query.
 */
export function turnInView(border: Border, turns = 'turns'): RawBuilder<SqlBool> {
  const { tenant, agentPrefixes } = border;
  const ofTenant = tenant === undefined ? [] : [isTenant(`${turns}.tenant`, tenant)];
  if (!agentPrefixes) return all(ofTenant);
  // Up to the turn that a request has made: none of them is deeper than delegation may go.
  const ancestors = sql`exists (with recursive above (agent_id, parent_id) as (
      select made.agent_id, made.parent_agent_turn_id from turns made
        where made.agent_turn_id = ${sql.ref(`${turns}.parent_agent_turn_id`)}
      union all
      select made.agent_id, made.parent_agent_turn_id from above join turns made on made.agent_turn_id = above.parent_id)
    select 1 from above where ${agentInView(border, 'above.agent_id')})`;
  return all([...ofTenant, sql`(${agentInView(border, `${turns}.agent_id`)} or ${ancestors})`]);
}

/** Whether an event of the log is in view: of such an agent, or of such a turn. */
export function eventInView(border: Border): RawBuilder<SqlBool> {
  if (seesAll(border)) return sql`1 = 1`;
  return sql`(${agentInView(border, 'events.agent_id')} or exists (
    select 1 from turns where turns.agent_turn_id = events.agent_turn_id and ${turnInView(border)}))`;
}

/** Something that a caller has an id of. */
export type Named =
  | { readonly agentId: string }
  | { readonly agentTurnId: string }
  | { readonly cardId: string }
  | { readonly boxId: string };

/** Whether there is such a thing, and a border leaves it in view. */
export const sees = (ctx: StoreContext, border: Border, named: Named): Promise<boolean> =>
  read(ctx, (reader) => inView(reader, border, named));

/** As `sees`, within a transaction or a read. */
export async function inView(reader: Reader, border: Border, named: Named): Promise<boolean> {
  if ('agentId' in named) {
    const entry = await rosterEntry(reader, named.agentId);
    return entry !== undefined && seesAgent(border, entry);
  }
  if ('agentTurnId' in named) return turnIsInView(reader.db, border, named.agentTurnId);
  return ownedInView(reader, border, await ownerOf(reader, named));
}

async function turnIsInView(db: Db, border: Border, agentTurnId: string): Promise<boolean> {
  const found = await db
    .selectFrom('turns')
    .select('turns.agent_turn_id')
    .where('turns.agent_turn_id', '=', agentTurnId)
    .where(turnInView(border))
    .executeTakeFirst();
  return found !== undefined;
}

/** Whose a card or a box is; undefined for one that is not there. */
type Owner = { readonly turnId: string | null; readonly agentId: string | null; readonly tenant: string | null };

async function ownerOf(
  { db }: Reader,
  named: { readonly cardId: string } | { readonly boxId: string },
): Promise<Owner | undefined> {
  if ('cardId' in named) {
    const card = await db
      .selectFrom('cards')
      .select(['agent_turn_id', 'agent_id', 'tenant'])
      .where('card_id', '=', named.cardId)
      .executeTakeFirst();
    return card && { turnId: card.agent_turn_id, agentId: card.agent_id, tenant: card.tenant };
  }
  const box = await db
    .selectFrom('boxes')
    .select(['owner_agent_id', 'agent_id', 'tenant'])
    .where('box_id', '=', named.boxId)
    .executeTakeFirst();
  return box && { turnId: null, agentId: box.owner_agent_id ?? box.agent_id, tenant: box.tenant };
}

function ownedInView(reader: Reader, border: Border, owner: Owner | undefined): Promise<boolean> | boolean {
  if (!owner) return false;
  if (seesAll(border)) return true;
  if (owner.turnId !== null) return turnIsInView(reader.db, border, owner.turnId);
  if (owner.agentId !== null) return inView(reader, border, { agentId: owner.agentId });
  return border.tenant === undefined || owner.tenant === border.tenant;
}

/** The tenant that a card or a box is of; null for the operators', undefined for one that is not there. */
export async function tenantOf(
  reader: Reader,
  named: { readonly cardId: string } | { readonly boxId: string },
): Promise<string | null | undefined> {
  const owner = await ownerOf(reader, named);
  if (!owner) return undefined;
  if (owner.turnId !== null) {
    const turn = await reader.db
      .selectFrom('turns')
      .select('tenant')
      .where('agent_turn_id', '=', owner.turnId)
      .executeTakeFirst();
    return turn?.tenant ?? null;
  }
  return owner.agentId === null ? owner.tenant : ((await rosterEntry(reader, owner.agentId))?.tenant ?? null);
}
