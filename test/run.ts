/**
 * `npm test`: all tests, or one of their layers. What else is given goes to Jest.
 *
 * `--unit`: pure code and stores; no servers, no processes. `--changed`: the tests that a change touches which is not committed, or,
 * as `--changed=main`, that the commits since `main` touch.
 */
import { run } from 'jest';

const LAYERS: Readonly<Record<string, readonly string[]>> = {
  '--unit': ['--config', 'jest.unit.json'],
  '--changed': ['--onlyChanged', '--passWithNoTests'],
};

const given = process.argv.slice(2).flatMap((word) => {
  const [, since] = /^--changed=(.+)$/.exec(word) ?? [];
  return since === undefined ? (LAYERS[word] ?? [word]) : [`--changedSince=${since}`, '--passWithNoTests'];
});
await run([...given]);
