/** The documents that the package ships lead to nothing that it lacks, for whoever reads them there has no clone. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

/** What npm would pack, but for what is built. */
const packed: readonly string[] = (
  JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      ...{ cwd: root, encoding: 'utf8' },
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as { files: { path: string }[] }[]
)
  .flatMap(({ files }) => files.map(({ path }) => path))
  .filter((path) => !path.startsWith('dist/'));

const documents = packed.filter((path) => /\.(md|ts)$/.test(path));

/** Folders of the repository, shipped or not. What else has a slash in it may be anything. */
const FOLDERS = ['workflows', 'activities', 'client', 'workers', 'test', 'bench', 'examples', 'docs', 'scripts', '.ci'];
/** Where an installed package lies, as its users name it. */
const INSTALLED = 'node_modules/agentturn/';
/** The section of the README that says of itself that it needs a clone. */
const OF_A_CLONE = /^## Develop\n[\s\S]*?(?=^## |$(?![\s\S]))/m;

/** The text for users: of an example its comments alone. */
const proseOf = (path: string, text: string): string =>
  path.endsWith('.md') ? text.replace(OF_A_CLONE, '') : (text.match(/^ *(\/\/|\/?\*).*$/gm) ?? []).join('\n');

const headingsOf = (text: string): readonly string[] =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

/** What the links of a document lead to, from the package's root, each with the heading that it names. */
function linksIn(path: string, text: string): { readonly target: string; readonly heading: string | undefined }[] {
  return [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([, target = '', heading]) => ({
    target: target.startsWith(INSTALLED)
      ? target.slice(INSTALLED.length)
      : target === ''
        ? path
        : posix.join(posix.dirname(path), target),
    heading,
  }));
}

/** Names of files of the repository that a text has, quoted or in commands. */
function filesIn(text: string): string[] {
  const installed = [...text.matchAll(/node_modules\/agentturn\/([\w./-]*\w)/g)].flatMap(([, file]) => file ?? []);
  const quoted = [...text.matchAll(/`([\w./-]+)`/g)].flatMap(([, name]) => name ?? []);
  const ours = quoted.filter((name) => name.includes('/') && FOLDERS.includes(name.split('/')[0] ?? ''));
  const alone = quoted.filter((name) => /^[\w-]+\.(md|ts|json)$/.test(name));
  return [...installed, ...ours, ...alone];
}

/** What of a document leads nowhere. `files` are those of the package, `headings` gives those of a document. */
function deadEnds(
  path: string,
  whole: string,
  files: readonly string[],
  headings: (file: string) => readonly string[],
): string[] {
  const text = proseOf(path, whole);
  const links = linksIn(path, whole)
    .filter(
      ({ target, heading }) =>
        !files.includes(target) || (heading !== undefined && !headings(target).includes(heading)),
    )
    .map(({ target, heading }) => (heading === undefined ? target : `${target}#${heading}`));
  const isThere = (name: string) =>
    [name, posix.join(posix.dirname(path), name)].some(
      (file) => files.includes(file) || files.some((other) => other.startsWith(`${file}/`)),
    );
  const scripts = [...text.matchAll(/\bnpm (run [\w:-]+|test)\b/g)].map(([script]) => script);
  return [...links, ...filesIn(text).filter((name) => !isThere(name)), ...scripts];
}

describe('the documents of the package', () => {
  test('are those for users, and all that they show', () => {
    expect(documents).toEqual(
      expect.arrayContaining(['README.md', 'docs/production.md', 'examples/starter/README.md']),
    );
    expect(packed).toContain('docs/web-ui.png');
  });

  test.each(documents)('%s leads to nothing that the package lacks', (path) => {
    expect(deadEnds(path, read(path), packed, (file) => headingsOf(read(file)))).toEqual([]);
  });
});

test('a dead end is seen in links, headings, names of files and commands, but for the section that needs a clone', () => {
  const text = [
    '# A page: its head',
    '[gone](gone.md) [here](b.md#a-page-its-head) [nowhere](b.md#nowhere) [own](#a-page-its-head) [web](https://example.org/x.md)',
    '`workflows/kernel/step.ts` `examples/app.ts` `a/b` `app.ts` `CONTRIBUTING.md` `cp node_modules/agentturn/none.ts .`',
    'Then npm run chaos, npm test, and npm install.',
    '## Develop',
    'npm run check, `CONTRIBUTING.md`, [gone](also-gone.md)',
  ].join('\n');
  const files = ['docs/a.md', 'docs/b.md', 'docs/app.ts', 'examples/app.ts'];
  expect(deadEnds('docs/a.md', text, files, () => headingsOf(text))).toEqual([
    ...['docs/gone.md', 'docs/b.md#nowhere', 'docs/also-gone.md'],
    ...['none.ts', 'workflows/kernel/step.ts', 'CONTRIBUTING.md', 'npm run chaos', 'npm test'],
  ]);
  const example = '/** `test/none.ts` */\nimport { x } from "y"; // `docs/none.md`\n  // `docs/gone.md`';
  expect(deadEnds('examples/a.ts', example, files, () => [])).toEqual(['test/none.ts', 'docs/gone.md']);
});
