import { describe } from '@jest/globals';
import { type PgBouncerProgram, pgbouncers } from './pgbouncer.ts';
import { hasPostgres } from './postgres.ts';

/** Tests that need PgBouncer, once for each program; where there is none they are skipped, and their name says so. */
export function describePgBouncer(name: string, tests: (program: PgBouncerProgram) => void): void {
  if (hasPostgres && pgbouncers.length > 0) {
    for (const program of pgbouncers) describe(`${name} ${program.version}`, () => tests(program));
    return;
  }
  const none = { path: '', version: '', keepsPrepared: false };
  describe.skip(`${name} (there is no pgbouncer; name one by AGENTTURN_TEST_PGBOUNCER)`, () => tests(none));
}
