/**
 * `doctor`: whether this installation can run turns. Each check is made whatever the others found, and what is wrong is said with its cure.
 *
 * Invariant: it starts nothing, and changes nothing unless it is asked to mend what it can.
 */
import type { CliIo } from '../../client/cli/environment.ts';
import { table } from '../../client/cli/format.ts';
import { commandLine } from '../../client/command-line.ts';
import { connectClient, type TemporalClient } from '../../client/connect.ts';
import { queueFacts } from '../../client/queue-facts.ts';
import { refuseOther, storeOfNamespace, takeNamespace } from '../../client/store-mark.ts';
import type { StoreIdentity } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { loadApp } from '../app-module.ts';
import type { Config } from '../config.ts';
import { isConfigured } from '../model-options.ts';
import { ensureSearchAttributes, missingSearchAttributes } from '../temporal/search-attributes.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { targetsOf } from './dev.ts';
import { locateTemporal } from './locate-temporal.ts';
import { checkModelEndpoint } from './model.ts';
import type { AppOptions } from './process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './settings.ts';

/** What one check found. */
export interface Finding {
  readonly check: 'temporal' | 'namespace' | 'store' | 'owner' | 'clock' | 'model' | 'app' | 'workers';
  /** Null where there was nothing to be checked. */
  readonly ok: boolean | null;
  readonly what: string;
}

/** A clock that is further off misleads whoever reads the log. */
const MOST_SKEW_MS = 5_000;
/** How long the server may take to say who serves a target. */
const SERVER_MS = 10_000;

/** What doctor is asked for. */
export interface DoctorOptions extends AppOptions {
  /** Makes missing search attributes, and gives the namespace to this store. */
  readonly fix?: boolean;
}

/** Prints what it found. Resolves with the exit code: 1 when anything is wrong. */
export async function doctor(config: Config, io: CliIo, options: DoctorOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const { fix = false } = options;
  const findings = await withCleanup((cleanup) => examine({ settings, fix }, options.app ?? config.appModule, cleanup));
  if (options.json) io.out(JSON.stringify({ findings }));
  else for (const line of table(findings.map(({ check, ok, what }) => [SHOWN[`${ok}`], check, what]))) io.out(line);
  return findings.some(({ ok }) => ok === false) ? 1 : 0;
}

const SHOWN = { true: 'ok', false: 'WRONG', null: '-' } as const;

/** What is examined, and whether it is mended. */
interface Examined {
  readonly settings: Settings;
  readonly fix: boolean;
}

async function examine(
  { settings, fix }: Examined,
  app: string | undefined,
  cleanup: Cleanup,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const check = async <T>(
    name: Finding['check'],
    body: () => Promise<T>,
    say: (found: T) => Omit<Finding, 'check'>,
  ) => {
    try {
      const found = await body();
      findings.push({ check: name, ...say(found) });
      return found;
    } catch (error) {
      const what = error instanceof CodedError ? `[${error.code}] ${error.message}` : String(error);
      findings.push({ check: name, ok: false, what });
      return null;
    }
  };
  const temporal = await check(
    'temporal',
    () => connected(settings, cleanup),
    ({ at }) => ({
      ok: true,
      what: `${at.address} answers`,
    }),
  );
  if (temporal) await check('namespace', () => missing(temporal, fix), attributesFound);
  const store = await check(
    'store',
    () => storeOf(settings, cleanup),
    ({ aheadMs }) => {
      findings.push({ check: 'clock', ...clockFound(aheadMs) });
      return { ok: true, what: 'it opens and answers' };
    },
  );
  if (temporal && store) await check('owner', () => ownerOf(temporal, store.identity, fix), ownerFound);
  await check('model', () => modelOf(settings.config), modelFound);
  const targets =
    app === undefined
      ? (store?.targets ?? settings.config.workerTargets)
      : await check(
          'app',
          async () => targetsOf(await loadApp(app)),
          () => ({ ok: true, what: `${app} loads` }),
        );
  if (app === undefined) findings.push({ check: 'app', ok: null, what: 'none is named: --app or AGENTTURN_APP' });
  if (!temporal || !targets) return findings;
  for (const target of targets)
    await check(
      'workers',
      () => temporal.client.withDeadline(Date.now() + SERVER_MS, () => queueFacts(temporal.client, target)),
      ({ hasPollers }) => workersFound(target, hasPollers),
    );
  return findings;
}

async function connected(settings: Settings, cleanup: Cleanup): Promise<TemporalClient> {
  const temporal = await connectClient(await locateTemporal(settings));
  cleanup.add(() => temporal.connection.close());
  return temporal;
}

async function missing({ connection, at }: TemporalClient, fix: boolean): Promise<readonly string[]> {
  if (fix) await ensureSearchAttributes(connection, at.namespace, SEARCH_ATTRIBUTES);
  return missingSearchAttributes(connection, at.namespace, SEARCH_ATTRIBUTES);
}

/** Whether the namespace belongs to this store. Errors: `store_mismatch`. */
async function ownerOf({ client }: TemporalClient, ours: StoreIdentity, fix: boolean): Promise<boolean> {
  const found = await storeOfNamespace(client);
  if (!fix || found?.storeId === ours.storeId) return refuseOther(client, ours, found);
  await takeNamespace(client, ours);
  return true;
}

const ownerFound = (isOurs: boolean): Omit<Finding, 'check'> =>
  isOurs
    ? { ok: true, what: 'the namespace belongs to this store' }
    : { ok: null, what: 'the namespace belongs to no store yet: the first worker gives it to its own' };

const attributesFound = (names: readonly string[]): Omit<Finding, 'check'> =>
  names.length === 0
    ? { ok: true, what: 'it has the search attributes of turns' }
    : {
        ok: false,
        what: `it lacks the search attributes ${names.join(', ')}; "${commandLine('doctor --fix')}" makes them`,
      };

interface FoundStore {
  readonly aheadMs: number;
  /** On which the agents that are registered run; null where none is. */
  readonly targets: readonly string[] | null;
  readonly identity: StoreIdentity;
}

async function storeOf(settings: Settings, cleanup: Cleanup): Promise<FoundStore> {
  const store = await openExistingStore(settings);
  cleanup.add(() => store.close());
  await store.listAgents({ limit: 1 });
  const targets = new Set((await store.listProfiles()).map(({ workerTarget }) => workerTarget));
  return {
    aheadMs: store.clockAheadMs(),
    targets: targets.size === 0 ? null : [...targets],
    identity: await store.identity(),
  };
}

function clockFound(aheadMs: number): Omit<Finding, 'check'> {
  const seconds = Math.round(Math.abs(aheadMs) / 1_000);
  const how = aheadMs > 0 ? 'behind' : 'ahead of';
  return Math.abs(aheadMs) <= MOST_SKEW_MS
    ? { ok: true, what: "this machine's clock agrees with the store's" }
    : { ok: false, what: `this machine's clock is ${seconds} s ${how} the store's; set it, e.g. by NTP` };
}

async function modelOf({ model }: Config): Promise<string | null> {
  if (!isConfigured(model)) return null;
  await checkModelEndpoint(model);
  return model.baseUrl ?? 'the endpoint of OpenAI';
}

const modelFound = (url: string | null): Omit<Finding, 'check'> =>
  url === null
    ? {
        ok: null,
        what: 'none is configured: dev and demo use the offline model, a worker needs OPENAI_API_KEY or OPENAI_BASE_URL',
      }
    : { ok: true, what: `${url} answers and takes the credentials` };

const workersFound = (target: string, hasPollers: boolean): Omit<Finding, 'check'> =>
  hasPollers
    ? { ok: true, what: `target ${target} is served` }
    : { ok: false, what: `no worker serves target ${target}: its turns wait; start one with --targets ${target}` };
