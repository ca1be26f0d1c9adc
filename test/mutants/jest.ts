/** Running some tests of a tree, and reading what came of them. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const JEST = [
  '--conditions=agentturn:source',
  '--disable-warning=ExperimentalWarning',
  'node_modules/jest/bin/jest.js',
];
/** A mutant may be told by what a scenario does on one of the stores alone. */
const ON_BOTH_STORES = { AGENTTURN_TEST_STORE: 'both' };
/** Shorter than in an ordinary run: what a mutant makes hang need not hang for a minute. */
const TEST_TIMEOUT_MS = 45_000;

export interface TestOutcome {
  readonly name: string;
  readonly status: 'passed' | 'failed';
}

interface Report {
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

export interface TestRun {
  readonly tree: string;
  readonly file: string;
  /** Of full names. */
  readonly pattern: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Runs the matching tests of a file in one process. Errors: the file could not be loaded, or the run was killed before its end. */
export async function runTests({ tree, file, pattern, ...limits }: TestRun): Promise<TestOutcome[]> {
  limits.signal.throwIfAborted();
  const report = join(tree, '.mutants-jest.json');
  rmSync(report, { force: true });
  const options = ['--runInBand', '--forceExit', '--silent', '--testTimeout', String(TEST_TIMEOUT_MS)];
  const output = ['--json', '--outputFile', report];
  const log = await run([...JEST, ...options, ...output, '-t', pattern, file], tree, limits);
  if (!existsSync(report)) throw new Error(log.slice(-2_000));
  const { numRuntimeErrorTestSuites, testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  if (numRuntimeErrorTestSuites > 0) throw new Error(testResults.map(({ message }) => message).join('\n'));
  return testResults.flatMap(({ assertionResults }) =>
    assertionResults.flatMap(({ fullName, status }) =>
      status === 'passed' || status === 'failed' ? [{ name: fullName, status }] : [],
    ),
  );
}

/** Resolves with what it said, also when it failed. */
function run(
  args: readonly string[],
  cwd: string,
  { timeoutMs, signal }: Pick<TestRun, 'timeoutMs' | 'signal'>,
): Promise<string> {
  const env = { ...process.env, ...ON_BOTH_STORES };
  const child = spawn(process.execPath, args, { cwd, env, timeout: timeoutMs, signal, killSignal: 'SIGKILL' });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += String(chunk);
  });
  child.stdout.resume();
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.once('close', (_code, killed) => {
      if (killed === null) resolve(log);
      else reject(new Error(`the tests did not end within ${timeoutMs} ms`));
    });
  });
}
