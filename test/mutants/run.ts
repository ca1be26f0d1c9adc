/**
 * `npm run mutants`: breaks one rule of the turn protocol at a time, in a copy of the tree, and runs the tests named by that rule. A
 * mutant is killed when one of them fails; the exit code is 1 when any is not.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { randomOf } from '../chaos/random.ts';
import setUp from '../support/global-setup.ts';
import tearDown from '../support/global-teardown.ts';
import { runTests, type TestOutcome } from './jest.ts';
import { type Mutant, mutated, namedBy } from './mutant.ts';
import { MUTANTS } from './mutants.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TIMEOUT_MS = 5 * 60_000;

const USAGE = `Usage: npm run mutants -- [RULE ...] [options]

  RULE ...       only the mutants of these rules, like T5 T9
  --sample N     only N of them, drawn by the seed
  --seed S       a whole number; default: from the clock
  --json FILE    also write the verdicts to FILE`;

interface Verdict {
  readonly rule: string;
  readonly breaks: string;
  readonly verdict: 'killed' | 'survived' | 'not run';
  /** The first test that failed, or why there is none. */
  readonly by: string;
  readonly seconds: number;
}

function choose(rules: readonly string[], sample: number | undefined, seed: number): Mutant[] {
  const unknown = rules.filter((rule) => !MUTANTS.some((mutant) => mutant.rule === rule));
  if (unknown.length > 0) throw new TypeError(`there is no mutant of ${unknown.join(', ')}`);
  const left = MUTANTS.filter(({ rule }) => rules.length === 0 || rules.includes(rule));
  if (sample === undefined) return left;
  console.log(`a sample of ${sample}, drawn with --seed ${seed}`);
  const random = randomOf(seed, 'mutants');
  return Array.from({ length: Math.min(sample, left.length) }, () => left.splice(random.int(0, left.length - 1), 1)[0])
    .flatMap((mutant) => mutant ?? [])
    .sort((a, b) => MUTANTS.indexOf(a) - MUTANTS.indexOf(b));
}

/** What git knows or would take, so that nothing built or ignored comes along. */
function copyTree(to: string): void {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  for (const file of String(list).split('\0')) {
    if (file !== '' && existsSync(join(ROOT, file))) cpSync(join(ROOT, file), join(to, file));
  }
  symlinkSync(realpathSync(join(ROOT, 'node_modules')), join(to, 'node_modules'));
}

interface Lab {
  readonly tree: string;
  readonly signal: AbortSignal;
}

/** On the tree as it is, each mutant's tests must be there, and pass. */
async function checkBaseline(lab: Lab, file: string, mutants: readonly Mutant[]): Promise<void> {
  const pattern = mutants.map(namedBy).join('|');
  const outcomes = await runTests({ ...lab, file, pattern, timeoutMs: TIMEOUT_MS });
  const failed = outcomes.find(({ status }) => status === 'failed');
  if (failed) throw new Error(`without any mutant, ${file} fails: ${failed.name}`);
  for (const mutant of mutants) {
    if (outcomes.some(({ name }) => new RegExp(namedBy(mutant)).test(name))) continue;
    throw new Error(`${file} has no test whose name matches ${namedBy(mutant)}`);
  }
}

async function judge(lab: Lab, mutant: Mutant): Promise<Pick<Verdict, 'verdict' | 'by'>> {
  const path = join(lab.tree, mutant.file);
  const source = readFileSync(path, 'utf8');
  try {
    writeFileSync(path, mutated(source, mutant));
    const run = { ...lab, file: mutant.test, pattern: namedBy(mutant), timeoutMs: TIMEOUT_MS };
    return verdictOf(await runTests(run));
  } catch (error) {
    return { verdict: 'not run', by: error instanceof Error ? error.message : String(error) };
  } finally {
    writeFileSync(path, source);
  }
}

function verdictOf(outcomes: readonly TestOutcome[]): Pick<Verdict, 'verdict' | 'by'> {
  const failed = outcomes.find(({ status }) => status === 'failed');
  return failed
    ? { verdict: 'killed', by: failed.name }
    : { verdict: 'survived', by: `${outcomes.length} tests passed` };
}

async function judgeAll(lab: Lab, chosen: readonly Mutant[]): Promise<Verdict[]> {
  console.log(`${chosen.length} mutants; first their tests without any`);
  const files = Map.groupBy(chosen, (mutant) => mutant.test);
  for (const [file, mutants] of files) await checkBaseline(lab, file, mutants);
  const verdicts: Verdict[] = [];
  for (const mutant of chosen) {
    const { rule, breaks } = mutant;
    const startedAt = performance.now();
    const judged = await judge(lab, mutant);
    lab.signal.throwIfAborted();
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    verdicts.push({ rule, breaks, ...judged, seconds });
    console.log(`| ${[rule, breaks, judged.verdict, judged.by, seconds].join(' | ')} |`);
  }
  return verdicts;
}

/** After an interrupt the servers are stopped and the folder removed like after any other end. */
function interrupted(): AbortSignal {
  const early = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => early.abort(new Error(`ended by ${name}`)));
  return early.signal;
}

function whole(name: string, text: string | undefined): number | undefined {
  if (text === undefined || /^[1-9]\d*$/.test(text)) return text === undefined ? undefined : Number(text);
  throw new TypeError(`--${name} must be a whole number above 0, got ${text}`);
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      sample: { type: 'string' },
      seed: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) console.log(USAGE);
  if (values.help) return true;
  const seed = whole('seed', values.seed) ?? Date.now() % 1_000_000;
  const chosen = choose(positionals, whole('sample', values.sample), seed);
  const signal = interrupted();
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-mutants-'));
  // All that the servers and tests below leave behind goes with the folder. PostgreSQL runs as another user and must get in.
  chmodSync(folder, 0o755);
  process.env.TMPDIR = join(folder, 'tmp');
  mkdirSync(process.env.TMPDIR);
  try {
    copyTree(join(folder, 'tree'));
    await setUp();
    const verdicts = await judgeAll({ tree: join(folder, 'tree'), signal }, chosen);
    if (values.json) writeFileSync(values.json, `${JSON.stringify(verdicts, null, 2)}\n`);
    const killed = verdicts.filter(({ verdict }) => verdict === 'killed').length;
    console.log(`${killed} of ${verdicts.length} mutants killed`);
    return killed === verdicts.length;
  } finally {
    await tearDown();
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = (await main()) ? 0 : 1;
