/** Temporal's native runtime, once per process, quiet unless told otherwise. */
import { DefaultLogger, type LogLevel, Runtime } from '@temporalio/worker';

export function installRuntime(level: LogLevel): void {
  Runtime.install({ logger: new DefaultLogger(level), telemetryOptions: { logging: { filter: level, forward: {} } } });
}
