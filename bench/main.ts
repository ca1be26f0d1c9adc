/**
 * `npm run bench`: what a turn costs in history, time and memory, beside a bare workflow that does the same calls in the same run.
 *
 * Prints tables, progress on stderr; ends with 1 when a turn's history is over its budget.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { measureAcks } from './acks.ts';
import { checkBudget } from './budget.ts';
import { gatherFacts, loadNow } from './facts.ts';
import { measureHistories } from './histories.ts';
import { type Lab, openLab } from './lab.ts';
import { measureMemory } from './memory.ts';
import { type Results, toMarkdown } from './report.ts';
import { measureLatency, measureThroughput } from './speed.ts';

const USAGE = `Usage: npm run bench -- [--quick] [--markdown] [--json FILE] [--write-docs]

  --quick        a minute instead of several: fewer turns, none with 200 calls
  --markdown     only the tables, no progress
  --json FILE    also write the results to FILE
  --write-docs   also put the tables into docs/performance.md`;

const DOCS = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
const BEGIN = '<!-- bench:begin -->';
const END = '<!-- bench:end -->';

/** A bench that hangs, or a machine too busy to measure on. */
const LONGEST_MS = 15 * 60_000;

type Say = (line: string) => void;

async function measure(quick: boolean, say: Say): Promise<Results> {
  const startedAt = performance.now();
  const loadAtStart = loadNow();
  say('starting a Temporal server, a model server and a worker');
  const lab = await openLab();
  try {
    const facts = await gatherFacts(lab, loadAtStart);
    const { histories, latency, throughput } = await withWorker(lab, true, async () => {
      say('histories');
      const histories = await measureHistories(lab, quick);
      say('latency');
      const latency = await measureLatency(lab, quick);
      say('throughput');
      return { histories, latency, throughput: await measureThroughput(lab, quick) };
    });
    say('memory');
    const memory = await measureMemory(lab, quick);
    // Last, because they leave queued turns behind.
    say('acknowledgements');
    const idle = await measureAcks(lab, 'idle', quick);
    const busy = await withWorker(lab, false, () => measureAcks(lab, 'busy', quick));
    const seconds = (performance.now() - startedAt) / 1_000;
    return {
      facts,
      histories,
      budget: checkBudget(histories),
      latency,
      throughput,
      memory,
      acks: { idle, busy },
      seconds,
    };
  } finally {
    await lab.close();
  }
}

async function withWorker<T>(lab: Lab, floor: boolean, work: () => Promise<T>): Promise<T> {
  const worker = await lab.startWorker({ floor });
  try {
    return await work();
  } finally {
    await worker.stop();
  }
}

function writeDocs(tables: string): void {
  const text = readFileSync(DOCS, 'utf8');
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${DOCS} has no ${BEGIN} … ${END} to put the tables between`);
  writeFileSync(DOCS, `${text.slice(0, from)}${BEGIN}\n\n${tables}\n\n${text.slice(to)}`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      json: { type: 'string' },
      'write-docs': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  setTimeout(() => {
    console.error(`Not done after ${LONGEST_MS / 60_000} minutes: giving up.`);
    process.exit(1);
  }, LONGEST_MS).unref();
  const startedAt = performance.now();
  const seconds = () => ((performance.now() - startedAt) / 1_000).toFixed(0).padStart(4);
  const say: Say = values.markdown ? () => {} : (line) => console.error(`${seconds()} s  ${line}`);
  const results = await measure(values.quick, say);
  const tables = toMarkdown(results);
  console.log(tables);
  if (values.json) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`);
  if (values['write-docs']) writeDocs(tables);
  const over = results.budget.filter((line) => !line.ok);
  if (over.length === 0) return;
  console.error(`Over the budget: ${over.map((line) => line.what).join('; ')}.`);
  process.exitCode = 1;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof TypeError && 'code' in error ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = 1;
}
