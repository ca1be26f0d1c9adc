/** Narrowing a list to the agents whose ids begin with one of a few texts. */
import { type RawBuilder, sql } from 'kysely';

/** Whether the column begins with one of the prefixes; compared as they are written, upper and lower case apart. It begins with none of none. */
export function beginsWith(column: string, prefixes: readonly string[]): RawBuilder<boolean> {
  if (prefixes.length === 0) return sql<boolean>`1 = 0`;
  const begin = (prefix: string) => sql`substr(${sql.ref(column)}, 1, ${sql.lit([...prefix].length)}) = ${prefix}`;
  return sql<boolean>`(${sql.join(prefixes.map(begin), sql` or `)})`;
}
