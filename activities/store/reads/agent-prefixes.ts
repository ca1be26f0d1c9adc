/** Narrowing a list to the agents whose ids begin with one of a few texts. */
import { type RawBuilder, sql } from 'kysely';

/** Whether the column begins with one of the prefixes; compared as they are written, upper and lower case apart. */
export const beginsWith = (column: string, prefixes: readonly string[]): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(
    prefixes.map((prefix) => sql`substr(${sql.ref(column)}, 1, ${sql.lit(prefix.length)}) = ${prefix}`),
    sql` or `,
  )})`;
