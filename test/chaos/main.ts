/**
 * `npm run chaos`: agents at work on a real server, a real store and real worker processes, all of them killed, frozen and taken away
 * again and again; afterwards every promise is checked. Ends by itself; with 1 when a promise was broken or an ending has no cause.
 */
import { writeFileSync } from 'node:fs';
import { type ChaosOptions, readOptions, USAGE } from './options.ts';
import { printReport } from './report.ts';
import { chaos } from './run.ts';

/** The first Ctrl-C ends the faults and goes on to the verdict; the second ends everything at once, children included. */
function onInterrupt(): AbortSignal {
  const early = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (early.signal.aborted) process.exit(130);
      console.error('ending early: everything open gets its time to end (again: end now)');
      early.abort();
    });
  }
  return early.signal;
}

async function main(options: ChaosOptions): Promise<void> {
  // Every child has an exit handler.
  process.setMaxListeners(100);
  const report = await chaos(options, (line) => console.error(line), onInterrupt());
  printReport(report, (line) => console.log(line));
  if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  process.exit(report.ok ? 0 : 1);
}

function parsed(): ChaosOptions | null {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    process.exit(2);
  }
}

const options = parsed();
if (options === null) console.log(USAGE);
else {
  try {
    await main(options);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
