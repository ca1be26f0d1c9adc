/**
 * `init`: a small project to begin with. Its app, compiler settings and README are those of `examples/starter`, which ship with the package;
 * what names versions, or would not ship, is made here.
 *
 * Invariant: nothing is written where one of the files is there already.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { makeFolder } from '../../activities/folder.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { dependencySpec, packageManifest, packageRoot } from './package-root.ts';
import type { InitOptions } from './process-commands.ts';

const COPIED = ['app.ts', 'tsconfig.json', 'README.md'];

const IGNORED = ['node_modules/', '.agentturn/', '.env'];

/** What is run in the new project, in its order; the last one in another terminal. */
const COMMANDS = [
  'npm install',
  'npx agentturn dev --app app.ts',
  `npx agentturn run weather 'call forecast {"city":"Rome"}' --wait`,
] as const;

/** Writes the project, and says what to run next. Returns the exit code. Errors: `file_exists`. */
export async function init(io: CliIo, { folder = '.', json }: InitOptions): Promise<number> {
  const dir = resolve(folder);
  const files = filesOf(dir);
  const taken = Object.keys(files).filter((name) => existsSync(join(dir, name)));
  if (taken.length > 0) {
    const message = `${dir} has ${taken.join(', ')} already, and nothing was written`;
    throw new CodedError('file_exists', message);
  }
  makeFolder(dir);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text, { flag: 'wx' });
  const next = [...buildFirst(), ...(dir === process.cwd() ? [] : [`cd ${folder}`]), ...COMMANDS];
  if (json) {
    io.out(JSON.stringify({ folder: dir, files: Object.keys(files), next }));
    return 0;
  }
  io.out(`made in ${dir}: ${Object.keys(files).join(', ')}`);
  io.out('next, the last one in another terminal:');
  for (const command of next) io.out(`  ${command}`);
  return 0;
}

/** The command that builds this package, for a clone that was never built; none for one that was, or was installed. */
function buildFirst(): readonly string[] {
  const root = packageRoot();
  return existsSync(join(root, 'dist')) ? [] : [`npm run build --prefix ${root}`];
}

/** The files of a new project by name. */
function filesOf(dir: string): Readonly<Record<string, string>> {
  const starter = join(packageRoot(), 'examples', 'starter');
  const copied = COPIED.map((name) => [name, readFileSync(join(starter, name), 'utf8')] as const);
  return {
    'package.json': `${JSON.stringify(manifestOf(dir), null, 2)}\n`,
    '.gitignore': `${IGNORED.join('\n')}\n`,
    ...Object.fromEntries(copied),
  };
}

/** The project's own manifest, with the versions that this package was tested with. */
function manifestOf(dir: string): object {
  const { peerDependencies, devDependencies } = packageManifest();
  const tested = (name: string) => `^${devDependencies[name]}`;
  return {
    name:
      basename(dir)
        .toLowerCase()
        .replace(/[^a-z0-9-]+/g, '-')
        .split('-')
        .filter((part) => part !== '')
        .join('-') || 'agents',
    private: true,
    type: 'module',
    scripts: { dev: 'agentturn dev --app app.ts', check: 'tsc' },
    dependencies: { agentturn: dependencySpec(dir), zod: peerDependencies.zod },
    devDependencies: { '@types/node': tested('@types/node'), typescript: tested('typescript') },
  };
}
