/**
 * `npm run bench`: what a turn costs in history, time and memory, beside a bare workflow that does the same calls in the same run; with
 * `--suspended`, what thousands of waiting turns cost one worker; with `--scale`, what a store costs when very many turns lie behind.
 *
 * Prints tables, progress on stderr; ends with 1 when something is over its budget.
 */
import { writeFileSync } from 'node:fs';
import { suspendedBudget } from './budget.ts';
import { writeDocs } from './docs.ts';
import { frozenBudget, frozenMarkdown, measureFrozen } from './frozen.ts';
import { type Lab, openLab } from './lab.ts';
import { measure } from './measure.ts';
import { type BenchOptions, readOptions, USAGE } from './options.ts';
import { toMarkdown, toShortMarkdown } from './report.ts';
import { measureScale, ROUNDS, SIZES } from './scale/measure.ts';
import { scaleBudget, scaleMarkdown } from './scale/report.ts';
import { measureStreams } from './streams/measure.ts';
import { streamBudget, streamMarkdown } from './streams/report.ts';
import { measureSupervise, superviseBudget, superviseMarkdown } from './supervise.ts';
import { measureSuspended } from './suspended.ts';
import { suspendedMarkdown } from './suspended-report.ts';

/** A bench that hangs, or a machine too busy to measure on. */
const LONGEST_MS = 15 * 60_000;
const LONGEST_PER_SUSPENDED_MS = 500;
/** A million turns are written to each store first. */
const LONGEST_SCALE_MS = 60 * 60_000;

/** A turn may wait for so long in each. */
const LONGEST_PER_FREEZE_MS = 120_000;

type Say = (line: string) => void;

interface Outcome {
  readonly results: unknown;
  readonly tables: string;
  /** What goes into the docs, and between which marks. */
  readonly docs: { readonly part: string; readonly tables: string };
  /** What is over its budget. */
  readonly over: readonly string[];
}

async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args);
  if (options === null) return console.log(USAGE);
  endAfter(longestMs(options));
  const startedAt = performance.now();
  const seconds = () => ((performance.now() - startedAt) / 1_000).toFixed(0).padStart(4);
  const say: Say = options.markdown ? () => {} : (line) => console.error(`${seconds()} s  ${line}`);
  const outcome = options.scale ? await runScale(options, say) : await runInLab(options, say);
  const { results, tables, docs, over } = outcome;
  console.log(tables);
  if (options.json) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
  if (options.writeDocs) writeDocs(docs.part, docs.tables);
  if (over.length === 0) return;
  console.error(`Over the budget: ${over.join('; ')}.`);
  process.exitCode = 1;
}

const longestMs = ({ scale, suspended, frozen }: BenchOptions): number =>
  scale
    ? LONGEST_SCALE_MS
    : LONGEST_MS + (suspended?.turns ?? 0) * LONGEST_PER_SUSPENDED_MS + (frozen ?? 0) * LONGEST_PER_FREEZE_MS;

async function runInLab(options: BenchOptions, say: Say): Promise<Outcome> {
  say(`starting a Temporal server, a model server and a store on ${options.store}`);
  const lab = await openLab(options);
  try {
    return await run(lab, options, say);
  } finally {
    await lab.close();
  }
}

/** Of the store alone. */
async function runScale({ store }: BenchOptions, say: Say): Promise<Outcome> {
  const results = await measureScale({ store, sizes: SIZES, rounds: ROUNDS }, say);
  const tables = scaleMarkdown(results);
  return { results, tables, docs: { part: `scale:${store}`, tables }, over: scaleBudget(results) };
}

function run(lab: Lab, options: BenchOptions, say: Say): Promise<Outcome> {
  if (options.streams) return runStreams(lab, options, say);
  if (options.frozen !== null) return runFrozen(lab, options.frozen, say);
  if (options.supervise) return runSupervise(lab, say);
  return options.suspended ? runSuspended(lab, options.suspended, say) : runUsual(lab, options, say);
}

async function runStreams(lab: Lab, { quick }: BenchOptions, say: Say): Promise<Outcome> {
  const results = await measureStreams(lab, { readers: 200, turns: 50, seconds: quick ? 30 : 180 }, say);
  const tables = streamMarkdown(results);
  return { results, tables, docs: { part: `streams:${lab.storeKind}`, tables }, over: streamBudget(results) };
}

async function runFrozen(lab: Lab, freezes: number, say: Say): Promise<Outcome> {
  const results = await measureFrozen(lab, freezes, say);
  const tables = frozenMarkdown(results);
  return { results, tables, docs: { part: `frozen:${lab.storeKind}`, tables }, over: frozenBudget(results) };
}

async function runSupervise(lab: Lab, say: Say): Promise<Outcome> {
  const results = await measureSupervise(lab, say);
  const tables = superviseMarkdown(results);
  return { results, tables, docs: { part: `supervise:${lab.storeKind}`, tables }, over: superviseBudget(results) };
}

/** Histories and memory do not depend on the store: the docs have them once. */
async function runUsual(lab: Lab, { quick }: BenchOptions, say: Say): Promise<Outcome> {
  const results = await measure(lab, quick, say);
  const tables = toMarkdown(results);
  const part = lab.pooler ? `${lab.storeKind}:pooled:${lab.pooler.version}` : lab.storeKind;
  const docs = { part, tables: lab.storeKind === 'sqlite' ? tables : toShortMarkdown(results) };
  return { results, tables, docs, over: results.budget.flatMap(({ ok, what }) => (ok === false ? [what] : [])) };
}

async function runSuspended(lab: Lab, options: NonNullable<BenchOptions['suspended']>, say: Say): Promise<Outcome> {
  const results = await measureSuspended(lab, options, say);
  const tables = suspendedMarkdown(results);
  return { results, tables, docs: { part: `suspended:${lab.storeKind}`, tables }, over: suspendedBudget(results) };
}

function endAfter(ms: number): void {
  setTimeout(() => {
    console.error(`Not done after ${Math.round(ms / 60_000)} minutes: giving up.`);
    process.exit(1);
  }, ms).unref();
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof TypeError ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = 1;
}
