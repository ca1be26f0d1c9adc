/** The status of a turn. Callers that wait for turns ask at every commit: all that ask in one tick share one statement. */
import type { TurnStatus } from '../../../workflows/protocol/turn.ts';
import { read, type StoreContext } from '../context.ts';
import { prepared } from '../prepared.ts';

/** Turns that are asked for in one statement. */
interface Batch {
  readonly ids: Set<string>;
  readonly statuses: Promise<ReadonlyMap<string, TurnStatus>>;
}

/** A function that reads the status of a turn; null when the turn was never accepted. */
export function turnStatusReader(ctx: StoreContext): (agentTurnId: string) => Promise<TurnStatus | null> {
  let open: Batch | null = null;
  const begin = (): Batch => {
    const ids = new Set<string>();
    const statuses = ticked().then(() => {
      if (open?.ids === ids) open = null;
      return readStatuses(ctx, [...ids]);
    });
    return { ids, statuses };
  };
  return async (agentTurnId) => {
    open ??= begin();
    open.ids.add(agentTurnId);
    return (await open.statuses).get(agentTurnId) ?? null;
  };
}

/** Resolves after all that is ready to run has run. */
async function ticked(): Promise<void> {
  await Promise.resolve();
  await new Promise<void>((resolve) => process.nextTick(resolve));
}

const statusesOf = prepared((db, { ids }: { readonly ids: readonly string[] }) =>
  db
    .selectFrom('turns')
    .select(['agent_turn_id', 'status'])
    .where((eb) => eb('agent_turn_id', '=', eb.fn.any(eb.val(ids)))),
);

const readStatuses = (ctx: StoreContext, ids: readonly string[]): Promise<ReadonlyMap<string, TurnStatus>> =>
  read(ctx, async ({ db }) => {
    const rows = await statusesOf(db, { ids }).execute();
    return new Map(rows.map((row) => [row.agent_turn_id, row.status]));
  });
