/** Temporal's native runtime, once per process, quiet unless told otherwise. */
import { setFlagsFromString } from 'node:v8';
import { DefaultLogger, type LogLevel, Runtime } from '@temporalio/worker';

/**
 * Megabytes of the young generation of each thread that runs workflows, half of it. They allocate and drop much, and V8 would give each
 * thread a hundred megabytes for that before it collects any: more than all the workflows it has cached.
 */
const SEMI_SPACE_MB = 8;

export function installRuntime(level: LogLevel): void {
  // Before the first worker: a thread takes the flag when it starts. This thread keeps what the command line gave it.
  setFlagsFromString(`--max-semi-space-size=${SEMI_SPACE_MB}`);
  Runtime.install({ logger: new DefaultLogger(level), telemetryOptions: { logging: { filter: level, forward: {} } } });
}
