/** `worker`: serves a Temporal server that runs already, until it is interrupted. */
import type { App } from '../../activities/app/app.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { UsageError } from '../../client/cli/failure.ts';
import { WORKER_TARGET_PATTERN } from '../../workflows/protocol/ids.ts';
import { loadApp } from '../app-module.ts';
import type { Config } from '../config.ts';
import { levelOf, sayer } from '../log.ts';
import { modelName, requireModel } from '../model-options.ts';
import { shownStore } from '../open-store.ts';
import { sharedWarning } from '../shared-targets.ts';
import { readServerRecord } from '../temporal/server-record.ts';
import { callbacksOf } from './callbacks.ts';
import { withCleanup } from './cleanup.ts';
import { targetsOf } from './dev.ts';
import { Interrupt } from './interrupt.ts';
import { namedJournal } from './journals.ts';
import { locateTemporal, refuseOthers } from './locate-temporal.ts';
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
    const logLevel = levelOf(options);
    const logFormat = options.log ?? config.logFormat;
    const log = sayer(io.err, logLevel, logFormat);
    const warn = (line: string) => log(line, 'WARN');
    const backend = await openBackend(address, settings, cleanup, { warn });
    await refuseOthers(backend.temporal.client, backend.store, settings);
    const { model, supervisor } = config;
    const callbacks = callbacksOf(config, config.gateway.url);
    const journal = namedJournal(config, backend.store);
    const parts = { app, model, targets, supervisor, journal, callbacks, log: warn, logLevel, logFormat } as const;
    const running = await runWorker(backend, parts, cleanup);
    const shared = sharedWarning(
      { pid: process.pid, model: modelName(model), targets },
      readServerRecord(settings.dataDir)?.owner,
    );
    if (shared !== null) warn(shared);
    const unserved = targetsOf(app).filter((target) => !targets.includes(target));
    const warning = await warned;
    if (warning !== null) warn(warning);
    if (unserved.length > 0) warn(`not served here, though agents of the app use them: ${unserved.join(', ')}`);
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
  throw new UsageError('app_not_loaded', 'a worker needs an app', {
    cure: 'Name its module with --app or AGENTTURN_APP.',
  });
}

function checkedTargets(targets: readonly string[]): readonly string[] {
  const wrong = targets.find((target) => !WORKER_TARGET_PATTERN.test(target));
  if (wrong === undefined) return targets;
  throw new UsageError('invalid_config', `--targets: ${JSON.stringify(wrong)} does not match ${WORKER_TARGET_PATTERN}`);
}
