/** The leases of services that one process at a time may run. */
import { sql } from 'kysely';
import { MOST_SKEW_MS } from '../ahead.ts';
import { read, type StoreContext, write } from '../context.ts';
import type { ServiceLeaseRow } from '../schema/rows.ts';

/** A lease that was free for longer is a break: what happened meanwhile nobody has watched. */
const BREAK_MS = 30_000;

/** Takes or renews the lease of a service; undefined while another holder has it. */
export const holdLease = (
  ctx: StoreContext,
  service: string,
  holder: string,
  ttlMs: number,
): Promise<Pick<ServiceLeaseRow, 'since' | 'listed_until'> | undefined> =>
  write(ctx, service, ({ db, now }) =>
    db
      .insertInto('svc_leases')
      .values({ service, holder, expires_at: now + ttlMs, since: now, listed_until: null })
      .onConflict((conflict) =>
        conflict
          .column('service')
          .doUpdateSet({
            holder,
            expires_at: now + ttlMs,
            // A time that is still to come was written by a clock that was ahead.
            since: sql<number>`case when svc_leases.expires_at < ${now - BREAK_MS} or svc_leases.since > ${now} then ${now} else svc_leases.since end`,
          })
          .where((eb) =>
            eb.or([
              eb('svc_leases.holder', '=', holder),
              eb('svc_leases.expires_at', '<=', now),
              // Its holder's clock was far ahead: nobody holds it for that long.
              eb('svc_leases.expires_at', '>', now + ttlMs + MOST_SKEW_MS),
            ]),
          ),
      )
      .returning(['since', 'listed_until'])
      .executeTakeFirst(),
  );

/** Ends the lease of `holder` at once. */
export async function releaseLease(ctx: StoreContext, service: string, holder: string): Promise<void> {
  await write(ctx, service, ({ db }) =>
    db
      .updateTable('svc_leases')
      // When it is written, not when it was asked for: until then nobody else had the lease, and it was no break.
      .set({ expires_at: ctx.now() })
      .where('service', '=', service)
      .where('holder', '=', holder)
      .where('expires_at', '>', ctx.now())
      .execute(),
  );
}

/** Until when somebody has, or had, the lease of a service; null when nobody ever had. */
export const leasedUntil = (ctx: StoreContext, service: string): Promise<number | null> =>
  read(ctx, async ({ db }) => {
    const row = await db
      .selectFrom('svc_leases')
      .select('expires_at')
      .where('service', '=', service)
      .executeTakeFirst();
    return row ? Number(row.expires_at) : null;
  });
