/** `agentturn init` from a clone; what an installed package makes is in test/package. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { emptyFolder, jsonOf, runCli } from '../../client/cli/processes.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

test('from a clone, makes a project that depends on the clone, and says to build that one first if it is not built', async () => {
  const cwd = realpathSync(emptyFolder());
  const { next } = jsonOf<{ readonly next: readonly string[] }>(await runCli(['init', 'mine', '--json'], { cwd }));
  const { dependencies } = JSON.parse(readFileSync(join(cwd, 'mine', 'package.json'), 'utf8')) as {
    readonly dependencies: { readonly agentturn: string };
  };
  const [, path = ''] = /^file:(.+)$/.exec(dependencies.agentturn) ?? [];
  expect(join(resolve(cwd, 'mine', path), '/')).toBe(ROOT);
  const isBuilt = existsSync(join(ROOT, 'dist'));
  expect(next.slice(0, -3)).toEqual(isBuilt ? ['cd mine'] : [expect.stringContaining('npm run build'), 'cd mine']);
});
