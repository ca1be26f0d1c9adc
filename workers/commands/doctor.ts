/**
 * `doctor`: whether this installation can run turns. Each check is made whatever the others found, and what is wrong has a name and a cure.
 *
 * Invariant: it starts nothing, and changes nothing unless it is asked to mend what it can.
 */
import type { App } from '../../activities/app/app.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { table } from '../../client/cli/format.ts';
import { connectClient } from '../../client/connect.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { OPEN_STATUSES } from '../../workflows/protocol/turn.ts';
import { loadApp } from '../app-module.ts';
import type { Config } from '../config.ts';
import { isConfigured } from '../model-options.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { targetsOf } from './dev.ts';
import {
  type CheckName,
  type CheckResult,
  type Finding,
  resultOfError,
  unchecked,
  well,
  wrong,
} from './doctor/findings.ts';
import { journalOf } from './doctor/journal.ts';
import { clockOf, storeAnswer, supervisionOf, versionsOf } from './doctor/store.ts';
import { attributesOf, namespaceOf, ownerOf, serverOf, serviceOf } from './doctor/temporal.ts';
import { locateTemporal } from './locate-temporal.ts';
import { unknownModels } from './model.ts';
import type { AppOptions } from './process-commands.ts';
import { keepsJournal, openExistingStore, type Settings, settingsOf } from './settings.ts';

/** What doctor is asked for. */
export interface DoctorOptions extends AppOptions {
  /** Makes what the server lacks, and gives the namespace to this store. */
  readonly fix?: boolean;
}

/** Prints what it found. Resolves with the exit code: 1 when anything is wrong. */
export async function doctor(config: Config, io: CliIo, options: DoctorOptions): Promise<number> {
  const { fix = false, app = config.appModule } = options;
  const findings: Finding[] = [];
  await withCleanup((cleanup) => examine({ settings: settingsOf(config, options), app, fix, findings, cleanup }));
  if (options.json) io.out(JSON.stringify({ findings }));
  else for (const line of table(findings.flatMap(shown))) io.out(line);
  return findings.some(({ ok }) => ok === false) ? 1 : 0;
}

const SHOWN = { true: 'ok', false: 'WRONG', null: '-' } as const;

function shown({ check, ok, problem, what, cure }: Finding): string[][] {
  const [first = '', ...more] = (problem === undefined ? what : `[${problem}] ${what}`).split('\n');
  const below = [...more, ...(cure === undefined ? [] : `cure: ${cure}`.split('\n'))];
  return [[SHOWN[`${ok}`], check, first], ...below.map((line) => ['', '', line])];
}

/** What is examined, and what was found so far. */
interface Examination {
  readonly settings: Settings;
  readonly app: string | undefined;
  readonly fix: boolean;
  readonly findings: Finding[];
  readonly cleanup: Cleanup;
}

async function examine({ settings, app, fix, findings, cleanup }: Examination): Promise<void> {
  const judge = async (check: CheckName, body: () => CheckResult | Promise<CheckResult>): Promise<boolean> => {
    const result = await Promise.resolve().then(body).catch(resultOfError);
    findings.push({ check, ...result });
    return result.ok === true;
  };
  /** What is opened for the checks that follow; null when it cannot be, which is a finding. */
  const opened = async <T>(check: CheckName, open: () => Promise<T>): Promise<T | null> => {
    try {
      return await open();
    } catch (error) {
      findings.push({ check, ...resultOfError(error) });
      return null;
    }
  };
  const temporal = await opened('temporal', async () => connectClient(await locateTemporal(settings)));
  if (temporal) cleanup.add(() => temporal.connection.close());
  const isReady =
    temporal !== null &&
    (await judge('temporal', () => serverOf(temporal))) &&
    (await judge('namespace', () => namespaceOf(temporal, fix)));
  if (temporal && isReady) await judge('attributes', () => attributesOf(temporal, fix));
  const slowed: string[] = [];
  const store = await opened('store', () => openExistingStore(settings, { warn: (line) => slowed.push(line) }));
  if (store) {
    cleanup.add(() => store.close());
    await judge('store', () => storeAnswer(store));
    for (const line of slowed) findings.push({ check: 'store', ...wrong('direct_unreachable', line) });
    await judge('clock', () => clockOf(store));
    await judge('supervisor', () => supervisionOf(store));
    if (keepsJournal(settings)) await judge('journal', () => journalOf(settings, store));
  }
  const named = settings.temporal !== undefined;
  if (temporal && isReady && store) await judge('owner', () => ownerOf(temporal, store, { fix, named }));
  const isOthers = findings.some(({ check, ok }) => check === 'owner' && ok === false);
  const loaded = app === undefined ? null : await opened('app', () => loadApp(app));
  if (app === undefined) findings.push({ check: 'app', ...unchecked('none is named: --app or AGENTTURN_APP') });
  if (loaded) findings.push({ check: 'app', ...well(`${app} loads`) });
  if (loaded && store) await judge('versions', () => versionsOf(loaded, store));
  await judge('model', () => modelOf(settings.config, loaded));
  if (!temporal || !isReady || (app !== undefined && !loaded)) return;
  if (isOthers) {
    findings.push({ check: 'workers', ...unchecked('not asked: the server works with another store') });
    return;
  }
  const targets = loaded ? targetsOf(loaded) : await registeredTargets(settings, store);
  const service = await Promise.all(
    targets.map(async (target) => ({ target, ...(await serviceOf(temporal, target).catch(resultOfError)) })),
  );
  const isServed = service.some(({ ok }) => ok);
  for (const { target, ...result } of service) {
    // An agent of an app that ran here once, the demo say, is nothing that anybody waits for.
    const isUnused =
      !loaded && store && isServed && result.problem === 'target_not_served' && !(await hasOpenTurns(store, target));
    findings.push({ check: 'workers', ...(isUnused ? unchecked(`${result.what}, which no open turn needs`) : result) });
  }
}

/** Whether a turn of an agent that runs on the target has not ended. Errors: those of the store. */
async function hasOpenTurns(store: Store, target: string): Promise<boolean> {
  for (const { name, workerTarget } of await store.listProfiles()) {
    if (workerTarget !== target) continue;
    if ((await store.findTurns({ profile: name, status: OPEN_STATUSES, limit: 1 })).length > 0) return true;
  }
  return false;
}

/** Whether the endpoint answers, takes the credentials, and has the models of the app. Errors: `provider_error`, `provider_auth`. */
async function modelOf({ model }: Config, app: App | null): Promise<CheckResult> {
  if (!isConfigured(model))
    return unchecked(
      'none is configured: dev and demo use the offline model, a worker needs OPENAI_API_KEY or OPENAI_BASE_URL',
    );
  const named = [...(app?.agents.values() ?? [])].flatMap(({ profile }) => [
    profile.model.name ?? model.defaultModel,
    profile.model.fallback?.name ?? [],
    profile.context.summaryModel ?? [],
  ]);
  const names = [...new Set(app ? named.flat() : [model.defaultModel])];
  const unknown = await unknownModels(model, names);
  const where = model.baseUrl ?? 'the endpoint of OpenAI';
  return unknown.length === 0
    ? well(`${where} answers and takes the credentials`)
    : wrong('model_not_found', `${where} has no model ${unknown.join(', ')}`);
}

/** The targets of the agents that are registered, or else those that a worker would serve. */
async function registeredTargets({ config }: Settings, store: Store | null): Promise<readonly string[]> {
  const registered = new Set((await store?.listProfiles())?.map(({ workerTarget }) => workerTarget));
  return registered.size === 0 ? config.workerTargets : [...registered];
}
