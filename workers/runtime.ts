/** Temporal's native runtime, of which a process has one. */
import { setFlagsFromString } from 'node:v8';
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, type LogLevel, Runtime, type RuntimeOptions } from '@temporalio/worker';
import { keepHeapSmall } from './heap.ts';
import { isShown, logLine, runtimeLevel } from './log.ts';
import type { LogFormat } from './log-format.ts';

/**
 * The size in megabytes of half the young generation of each thread that runs workflows. Workflows allocate and drop much, and V8 would
 * give each thread a hundred megabytes for that before it collects any: more than all the workflows that the thread has cached.
 */
const SEMI_SPACE_MB = 8;

/**
 * Sets up this process for workers, before the first of them starts: it logs from `level` on, and keeps its heaps small, also while thousands of
 * turns that waited are replayed at once.
 */
export function installRuntime(level: LogLevel, format: LogFormat = 'text'): void {
  // A thread takes the flag when it starts. This thread keeps the size that the command line gave it.
  setFlagsFromString(`--max-semi-space-size=${SEMI_SPACE_MB}`);
  keepHeapSmall();
  Runtime.install(optionsOf(level, format));
}

/** Sets up the runtime of a process that is not there for workers alone, unless it has one: that one stays as it is. */
export function ensureRuntime(level: LogLevel): void {
  try {
    Runtime.install(optionsOf(level, 'text'));
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}

function optionsOf(level: LogLevel, format: LogFormat): RuntimeOptions {
  const logger = new DefaultLogger(level, (entry) => {
    if (isShown(entry, level)) process.stderr.write(`${logLine(entry, format)}\n`);
  });
  return { logger, telemetryOptions: { logging: { filter: runtimeLevel(level), forward: {} } } };
}
