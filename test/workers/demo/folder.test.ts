import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { listFiles, readFile, searchText } from '../../../workers/demo/document-tools.ts';
import { Folder } from '../../../workers/demo/folder.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';

const base = mkdtempSync(join(tmpdir(), 'agentturn-folder-'));
const write = (path: string, content: string | Buffer) => {
  mkdirSync(dirname(join(base, path)), { recursive: true });
  writeFileSync(join(base, path), content);
};
let folder: Folder;

beforeAll(async () => {
  write('outside/secret.txt', 'the outside secret\n');
  write('docs/README.md', '# Bramble\n\nBramble keeps jobs in one file.\r\nIt needs no server.\n');
  write('docs/guide/lanes.md', 'A lane is a list of jobs.\nLanes share no file, and jobs of a lane run one by one.\n');
  write('docs/guide/empty.md', '');
  write('docs/picture.png', Buffer.from([0x89, 0x50, 0, 1, 2]));
  write('docs/.hidden/notes.md', 'hidden jobs file');
  write('docs/.env', 'KEY=jobs');
  write('docs/node_modules/x/index.js', 'jobs file');
  write('docs/..odd.md', 'odd names are hidden too: jobs');
  symlinkSync(join(base, 'outside/secret.txt'), join(base, 'docs/leak.txt'));
  symlinkSync(join(base, 'outside'), join(base, 'docs/leak'));
  symlinkSync('README.md', join(base, 'docs/same.md'));
  symlinkSync('.env', join(base, 'docs/env.txt'));
  symlinkSync('.', join(base, 'docs/circle'));
  symlinkSync('nowhere', join(base, 'docs/broken.md'));
  symlinkSync(join(base, 'docs'), join(base, 'link-to-docs'));
  folder = await Folder.open(join(base, 'docs'));
});
afterAll(() => rmSync(base, { recursive: true }));

describe('a folder', () => {
  test('lists its text files, shallow ones first', async () => {
    const { files, truncated } = await folder.list();
    expect(files.map((file) => file.path)).toEqual(['README.md', 'same.md', 'guide/empty.md', 'guide/lanes.md']);
    expect(truncated).toBe(false);
  });

  test.each([
    '../outside/secret.txt',
    'guide/../../outside/secret.txt',
    '/etc/passwd',
    join(base, 'outside/secret.txt'),
    join(base, 'docs/README.md'),
    'leak.txt',
    'leak/secret.txt',
    'env.txt',
    '.env',
    '.hidden/notes.md',
    'node_modules/x/index.js',
    'broken.md',
    'guide',
    '.',
    '',
    'README.md\0.txt',
  ])('does not read %j', async (path) => {
    await expect(folder.read(path)).rejects.toThrow(/there is no file/);
  });

  test('reads through a link that stays inside, and through a folder that is itself a link', async () => {
    expect(await folder.read('same.md')).toContain('Bramble');
    expect(await folder.read('circle/guide/lanes.md')).toContain('A lane');
    const linked = await Folder.open(join(base, 'link-to-docs'));
    expect(await linked.read('README.md')).toContain('Bramble');
  });

  test('says that a binary file is none', async () => {
    await expect(folder.read('picture.png')).rejects.toThrow(/not a text file/);
  });

  test('shows only what it is told to include', async () => {
    const narrowed = await Folder.open(join(base, 'docs'), ['guide']);
    expect((await narrowed.list()).files.map((file) => file.path)).toEqual(['guide/empty.md', 'guide/lanes.md']);
    await expect(narrowed.read('README.md')).rejects.toThrow(/there is no file/);
  });

  test('a file or nothing is no folder: invalid_config', async () => {
    for (const path of ['docs/README.md', 'nowhere']) {
      const error = await Folder.open(join(base, path)).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(CodedError);
      expect(error).toMatchObject({ code: 'invalid_config' });
    }
  });
});

describe('the tools over a folder', () => {
  test('list_files names files with their sizes', async () => {
    const { files, total, truncated } = await listFiles(folder);
    expect(files[0]).toEqual({ path: 'README.md', bytes: 64 });
    expect({ total, truncated }).toEqual({ total: 4, truncated: false });
  });

  test('search_text ranks by distinct words, then path, then line', async () => {
    const { matches, files_searched, truncated } = await searchText(folder, { query: 'FILE jobs file' });
    expect(matches.map(({ path, line }) => `${path}:${line}`)).toEqual([
      'README.md:3',
      'guide/lanes.md:2',
      'same.md:3',
      'guide/lanes.md:1',
    ]);
    expect(matches[0]?.text).toBe('Bramble keeps jobs in one file.');
    expect({ files_searched, truncated }).toEqual({ files_searched: 4, truncated: false });
    const fewer = await searchText(folder, { query: 'jobs', max_results: 1 });
    expect(fewer).toMatchObject({ truncated: true, matches: [{ path: 'README.md' }] });
    expect(await searchText(folder, { query: '   ' })).toMatchObject({ matches: [], truncated: false });
  });

  test('read_file gives the lines asked for', async () => {
    expect(await readFile(folder, { path: 'README.md', from_line: 3, to_line: 99 })).toEqual({
      path: 'README.md',
      from_line: 3,
      to_line: 4,
      total_lines: 4,
      text: 'Bramble keeps jobs in one file.\nIt needs no server.',
    });
    expect(await readFile(folder, { path: 'guide/empty.md' })).toMatchObject({ text: '', total_lines: 1, to_line: 1 });
    await expect(readFile(folder, { path: 'README.md', from_line: 5 })).rejects.toThrow(/has 4 lines/);
  });

  test('results stay small, and say so', async () => {
    const line = 'a needle in a long line of words that goes on and on '.repeat(3);
    write('big/one.txt', `${line}\n`.repeat(500));
    write('big/wide.txt', `${'x'.repeat(20_000)} needle ${'y'.repeat(20_000)}`);
    const big = await Folder.open(join(base, 'big'));
    const read = await readFile(big, { path: 'one.txt' });
    expect(Buffer.byteLength(read.text)).toBeLessThan(9_000);
    expect(read).toMatchObject({ from_line: 1, total_lines: 500 });
    expect(read.to_line).toBeLessThan(500);
    expect(read.text.split('\n')).toHaveLength(read.to_line);
    const found = await searchText(big, { query: 'needle', max_results: 200 });
    expect(Buffer.byteLength(JSON.stringify(found))).toBeLessThan(9_000);
    expect(found.truncated).toBe(true);
    const wide = await searchText(await Folder.open(join(base, 'big'), ['wide.txt']), { query: 'needle' });
    expect(wide.matches[0]?.text).toContain('needle');
    expect(await big.read('wide.txt')).toContain(wide.matches[0]?.text);
    expect((await readFile(big, { path: 'wide.txt' })).text).toHaveLength(8_192);
  });

  test('no more than 2,000 files and 1 MiB of each', async () => {
    for (let index = 0; index < 2_001; index += 1) write(`many/${index % 10}/${index}.txt`, `file ${index}`);
    write('many/huge.txt', 'h'.repeat(2 * 1024 * 1024));
    const many = await Folder.open(join(base, 'many'));
    const listing = await many.list();
    expect(listing).toMatchObject({ truncated: true });
    expect(listing.files).toHaveLength(2_000);
    const listed = await listFiles(many);
    expect(listed).toMatchObject({ total: 2_000, truncated: true });
    expect(Buffer.byteLength(JSON.stringify(listed))).toBeLessThan(9_000);
    expect(await many.read('huge.txt')).toHaveLength(1024 * 1024);
  });

  test('a search that is called off ends', async () => {
    await expect(searchText(folder, { query: 'jobs' }, AbortSignal.abort(new Error('stopped')))).rejects.toThrow(
      'stopped',
    );
  });
});
