/** Running some tests of a tree, and reading what came of them. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';

const JEST = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', 'node_modules/jest/bin/jest.js'];
/** Shorter than in an ordinary run: what a mutant makes hang need not hang for a minute. */
const TEST_TIMEOUT_MS = 45_000;

export interface TestOutcome {
  /** Relative to the tree. */
  readonly file: string;
  readonly name: string;
  readonly status: 'passed' | 'failed';
}

interface Report {
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/**
 * Runs the tests of `files` whose full name matches, in one process. Errors: a file could not be loaded at all, or the run took longer
 * than `timeoutMs` and was killed.
 */
export async function runTests(
  tree: string,
  files: readonly string[],
  pattern: string,
  timeoutMs: number,
): Promise<TestOutcome[]> {
  const report = join(tree, '.mutants-jest.json');
  rmSync(report, { force: true });
  const options = ['--runInBand', '--forceExit', '--silent', '--testTimeout', String(TEST_TIMEOUT_MS)];
  const output = ['--json', '--outputFile', report];
  const log = await run([...JEST, ...options, ...output, '-t', pattern, ...files], tree, timeoutMs);
  if (!existsSync(report)) throw new Error(log.slice(-2_000));
  const { numRuntimeErrorTestSuites, testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  if (numRuntimeErrorTestSuites > 0) throw new Error(testResults.map(({ message }) => message).join('\n'));
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.flatMap(({ fullName, status }) =>
      status === 'passed' || status === 'failed' ? [{ file: relative(tree, name), name: fullName, status }] : [],
    ),
  );
}

/** Resolves with what it said, also when it failed. */
function run(args: readonly string[], cwd: string, timeoutMs: number): Promise<string> {
  const child = spawn(process.execPath, args, { cwd, timeout: timeoutMs, killSignal: 'SIGKILL' });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += String(chunk);
  });
  child.stdout.resume();
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (_code, signal) => {
      if (signal === null) resolve(log);
      else reject(new Error(`the tests did not end within ${timeoutMs} ms`));
    });
  });
}
