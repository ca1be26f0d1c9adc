/** `worker`: serves a Temporal server that runs already, until it is interrupted. */
import type { App } from '../../activities/app/app.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { WORKER_TARGET_PATTERN } from '../../workflows/protocol/ids.ts';
import { loadApp } from '../app-module.ts';
import type { Config } from '../config.ts';
import { saidLine } from '../log.ts';
import { requireModel } from '../model-options.ts';
import { shownStore } from '../open-store.ts';
import { callbacksOf } from './callbacks.ts';
import { withCleanup } from './cleanup.ts';
import { targetsOf } from './dev.ts';
import { Interrupt } from './interrupt.ts';
import { locateTemporal } from './locate-temporal.ts';
import { modelWarning } from './model.ts';
import type { WorkerOptions } from './process-commands.ts';
import { settingsOf } from './settings.ts';
import { openBackend, runWorker } from './worker-process.ts';

/** Resolves with the exit code when it was interrupted and all is closed. */
export function worker(config: Config, io: CliIo, options: WorkerOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const interrupt = new Interrupt();
  return withCleanup(async (cleanup) => {
    cleanup.add(() => interrupt.release());
    const app = await loadNamedApp(options.app ?? config.appModule);
    const targets = checkedTargets(options.targets ?? config.workerTargets);
    requireModel(config.model, 'set OPENAI_API_KEY, OPENAI_BASE_URL or both');
    const warned = modelWarning(config.model);
    warned.catch(() => {});
    const address = await locateTemporal(settings);
    const backend = await openBackend(address, settings, cleanup);
    const logLevel = options.debug ? 'DEBUG' : 'WARN';
    const { model, supervisor } = config;
    const logFormat = options.log ?? config.logFormat;
    const log = (line: string) => io.err(saidLine(line, logFormat));
    const callbacks = callbacksOf(config, config.gateway.url);
    const parts = { app, model, targets, supervisor, callbacks, log, logLevel, logFormat } as const;
    const running = await runWorker(backend, parts, cleanup);
    const unserved = targetsOf(app).filter((target) => !targets.includes(target));
    const warning = await warned;
    if (warning !== null) log(warning);
    if (unserved.length > 0) log(`not served here, though agents of the app use them: ${unserved.join(', ')}`);
    const ready = {
      temporal: address.address,
      namespace: address.namespace,
      store: shownStore(settings.storeUrl),
      targets,
    };
    if (options.json) io.out(JSON.stringify({ ready }));
    else
      io.out(
        `ready: serving ${targets.join(', ')} at ${address.address}, namespace ${address.namespace} (Ctrl-C stops)`,
      );
    await Promise.race([interrupt.requested(), running.done]);
    log('stopping: running work gets a moment to finish...');
    return 0;
  });
}

/** Errors: `app_not_loaded`. */
function loadNamedApp(module: string | undefined): Promise<App> {
  if (module !== undefined) return loadApp(module);
  throw new CodedError('app_not_loaded', 'a worker needs an app: name its module with --app or AGENTTURN_APP');
}

function checkedTargets(targets: readonly string[]): readonly string[] {
  const wrong = targets.find((target) => !WORKER_TARGET_PATTERN.test(target));
  if (wrong === undefined) return targets;
  throw new CodedError('invalid_config', `--targets: ${JSON.stringify(wrong)} does not match ${WORKER_TARGET_PATTERN}`);
}
