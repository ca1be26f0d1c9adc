/** The test files that a change touches: those that import a changed file, or name its path, also by way of other files. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const FILES = ['*.ts', '{activities,bench,client,examples,scripts,test,workers,workflows}/**/*.ts'];

const git = (...args: readonly string[]): string[] =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);

/** What is changed and not committed, and what the commits since `since` have changed where that is given. Errors: those of git. */
export function changedFiles(since?: string): readonly string[] {
  const [from = 'HEAD'] = since === undefined ? [] : git('merge-base', since, 'HEAD');
  return [...git('diff', '--name-only', from), ...git('ls-files', '--others', '--exclude-standard')];
}

/**
 * The test files that import these files or name their paths; null where none does for one of them, and nobody can tell which tests it
 * touches.
 */
export function testsThatImport(files: readonly string[]): readonly string[] | null {
  const importers = importersOf();
  const tests = new Set<string>();
  for (const file of files) {
    const found = [...reaching(file, importers)].filter((each) => each.endsWith('.test.ts'));
    if (found.length === 0) return null;
    for (const each of found) tests.add(each);
  }
  return [...tests];
}

/** The files that lead to the file, and itself. */
function reaching(file: string, importers: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const found = new Set([file]);
  for (const each of found) for (const importer of importers.get(each) ?? []) found.add(importer);
  return found;
}

function importersOf(): ReadonlyMap<string, readonly string[]> {
  // Which makes the servers and the bundle that the harness finds.
  const importers = new Map([['test/support/global-setup.ts', ['test/support/harness.ts']]]);
  for (const file of globSync(FILES, { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8');
    for (const [, path = ''] of text.matchAll(/'(\.{1,2}\/[^'\s]+)'/g)) {
      const imported = posix.join(posix.dirname(file), path);
      importers.set(imported, [...(importers.get(imported) ?? []), file]);
    }
  }
  return importers;
}
