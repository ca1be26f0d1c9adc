/**
 * `npm test`: all tests, or one of their layers. What else is given goes to Jest.
 *
 * `--unit`: what needs no server, which is pure code and stores on SQLite. `--changed`: the tests that an uncommitted change touches or,
 * as `--changed=main`, that the commits since `main` touch.
 */
import { run } from 'jest';
import teardown from './support/global-teardown.ts';

const LAYERS: Readonly<Record<string, readonly string[]>> = {
  '--unit': ['--config', 'jest.unit.json'],
  '--changed': ['--onlyChanged', '--passWithNoTests'],
};

const given = process.argv.slice(2).flatMap((word) => {
  const [, since] = /^--changed=(.+)$/.exec(word) ?? [];
  return since === undefined ? (LAYERS[word] ?? [word]) : [`--changedSince=${since}`, '--passWithNoTests'];
});
// A run that is stopped leaves neither servers nor what it wrote, which may lie in memory.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void teardown().finally(() => process.exit(1)));
}
await run([...given]);
