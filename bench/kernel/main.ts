/**
 * `npm run bench:kernel`: how long a step of the kernel takes, by event and size of the turn, and how large its state and its bundle are.
 *
 * It prints tables, and progress on stderr, and exits with 1 when a target is missed.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { writeDocs } from '../docs.ts';
import { measureKernel } from './measure.ts';
import { kernelMarkdown } from './report.ts';
import { kernelTargets } from './targets.ts';

const USAGE = `Usage: npm run bench:kernel -- [options]

  --rounds N     how often each event is fed to the kernel at each size; default 1000
  --json FILE    also write the results to FILE
  --write-docs   also put the tables into docs/performance.md`;

async function main(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '1000' },
      json: { type: 'string' },
      'write-docs': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const results = await measureKernel(roundsOf(values.rounds), (line) => console.error(line));
  const targets = kernelTargets(results);
  const tables = kernelMarkdown(results, targets);
  console.log(tables);
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ ...results, targets }, null, 2)}\n`);
  if (values['write-docs']) writeDocs('kernel', tables);
  const missed = targets.filter(({ ok }) => !ok);
  if (missed.length === 0) return;
  console.error(`Missed: ${missed.map(({ what }) => what).join('; ')}.`);
  process.exitCode = 1;
}

function roundsOf(text: string): number {
  const rounds = Number(text);
  if (Number.isInteger(rounds) && rounds > 0) return rounds;
  throw new TypeError(`--rounds must be a whole number from 1, got ${text}`);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof TypeError ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = 1;
}
