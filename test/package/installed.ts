/** The package as its users get it: packed once, and installed in an empty folder. */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import manifest from '../../package.json' with { type: 'json' };
import { PACKAGE_COMMANDS } from '../support/pages.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CONSUMER = fileURLToPath(new URL('consumer', import.meta.url));
/** What the cache of npm has is taken from there, and nothing is reported. A connection that stalls is given up after half a minute. */
const QUICK = ' --prefer-offline --no-audit --no-fund --fetch-timeout=30000';

/** The settings under which the consumer's program must be correct. */
const COMPILER_OPTIONS = {
  ...{ strict: true, skipLibCheck: false, noEmit: true },
  ...{ target: 'es2024', lib: ['es2024', 'esnext.disposable'], types: ['node'] },
};

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Installed {
  /** The packed file. */
  readonly tarball: string;
  /** The paths in it, from the package's root. */
  readonly packed: readonly string[];
  /** The folder with the programs of `consumer/`, in which the package is installed. */
  readonly folder: string;
}

/** Runs a program in a folder, with nothing of this process's environment but what the machine needs; `timeout` is in milliseconds, 0 for none. */
export async function run(
  folder: string,
  command: readonly string[],
  more: Readonly<Record<string, string>> = {},
  timeout = 0,
): Promise<Ran> {
  const [file = '', ...args] = command;
  try {
    return { code: 0, ...(await promisify(execFile)(file, args, { cwd: folder, env: environment(more), timeout })) };
  } catch (error) {
    const { code, killed, stdout = '', stderr = '', message } = error as Error & Partial<Ran> & { killed?: boolean };
    if (killed) return { code: 124, stdout, stderr: `${stderr}${message}: gave up after ${timeout} ms` };
    if (typeof code !== 'number') throw error;
    return { code, stdout, stderr: stderr || message };
  }
}

/** What npm tells the scripts that it runs, such as the folder of their project, must not reach the npm of a consumer. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = [
    'PATH',
    'HOME',
    'TMPDIR',
    'XDG_CACHE_HOME',
    'NODE_COMPILE_CACHE',
    'npm_config_cache',
    'npm_config_registry',
    'npm_config_userconfig',
    // How this machine reaches a registry: without them each request fails, and npm tries for minutes.
    ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
    ...['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'NO_PROXY', 'no_proxy'],
  ];
  return {
    ...Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))),
    ...more,
  };
}

/** Packs the project, which builds it, and installs the tarball in a folder of its own. */
export async function packAndInstall(): Promise<Installed> {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-consumer-'));
  const { stdout } = await checked(run(ROOT, ['npm', 'pack', '--json', '--silent', '--pack-destination', folder]));
  const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [
    { filename: string; files: { path: string }[] },
  ];
  const tarball = join(folder, filename);
  cpSync(CONSUMER, folder, { recursive: true });
  // Without it npm takes the newest types of Node that any dependency allows, which Temporal's own types may not agree with.
  const devDependencies = { '@types/node': manifest.devDependencies['@types/node'] };
  const consumer = { name: 'consumer', private: true, type: 'module', devDependencies };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(consumer));
  await npm(folder, PACKAGE_COMMANDS.install.replace('agentturn', tarball));
  return { tarball, packed: files.map(({ path }) => path), folder };
}

/** Installs what a project depends on. */
export const install = (folder: string): Promise<Ran> => npm(folder, 'npm install');

/** A bound for one installation, of 185 packages; a quarter of a minute on a machine that does nothing else. */
const INSTALL_MS = 10 * 60_000;

const npm = (folder: string, command: string): Promise<Ran> =>
  checked(run(folder, ['sh', '-c', `exec ${command}${QUICK}`], {}, INSTALL_MS));

/** Type-checks files of a folder under a setting of `module`; what the compiler says, which is nothing when all is well. */
export async function typeErrors(
  folder: string,
  files: readonly string[],
  module: 'nodenext' | 'esnext',
): Promise<string> {
  const resolution = module === 'esnext' ? { moduleResolution: 'bundler' } : {};
  const config = join(folder, `tsconfig.${module}.json`);
  writeFileSync(config, JSON.stringify({ compilerOptions: { ...COMPILER_OPTIONS, module, ...resolution }, files }));
  return (await run(folder, [...TSC, '-p', config])).stdout;
}

/** A program of this project's own devDependencies. */
export const tool = (path: string): readonly string[] => [process.execPath, join(ROOT, 'node_modules', path)];

/** The compiler of this project. */
export const TSC = tool('typescript/bin/tsc');

async function checked(running: Ran | Promise<Ran>): Promise<Ran> {
  const ran = await running;
  if (ran.code === 0) return ran;
  throw new Error(`exit code ${ran.code}: ${ran.stdout}${ran.stderr}`);
}
