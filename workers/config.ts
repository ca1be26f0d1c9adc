/** The environment, read once and validated; nothing else in the project reads it. */
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { z } from 'zod';
import type { ModelOptions } from '../activities/llm/openai.ts';
import { DEFAULT_CONNECTIONS, FEWEST_CONNECTIONS } from '../activities/store/postgres/open.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { DEFAULT_WORKER_TARGET, WORKER_TARGET_PATTERN } from '../workflows/protocol/ids.ts';
import type { TemporalCredentials } from './temporal/probe.ts';

export const DEFAULT_MODEL = 'gpt-5-mini';

const storeUrl = z.string().regex(/^(sqlite:|postgres(ql)?:\/\/).+/, { error: 'must be sqlite:PATH or postgres://…' });

const targets = z
  .string()
  .transform((text) => text.split(',').map((name) => name.trim()))
  .pipe(
    z.array(z.string().regex(WORKER_TARGET_PATTERN, { error: 'each must be 1 to 64 of a-z, 0-9, "_" and "-"' })).min(1),
  );

const connections = z
  .string()
  .regex(/^\d+$/, { error: 'must be a whole number' })
  .transform(Number)
  .pipe(z.int().min(FEWEST_CONNECTIONS).max(1_000));

const environmentSchema = z.object({
  AGENTTURN_STORE: storeUrl.optional(),
  AGENTTURN_STORE_CONNECTIONS: connections.default(DEFAULT_CONNECTIONS),
  AGENTTURN_APP: z.string().min(1).optional(),
  AGENTTURN_MODEL: z.string().min(1).default(DEFAULT_MODEL),
  AGENTTURN_WORKER_TARGETS: targets.default([DEFAULT_WORKER_TARGET]),
  AGENTTURN_SUPERVISOR: z.enum(['process', 'schedule', 'none']).default('process'),
  OPENAI_API_KEY: z.string().min(1).optional(),
  OPENAI_BASE_URL: z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' }).optional(),
  PATH: z.string().default(''),
  XDG_CACHE_HOME: z.string().min(1).optional(),
});

export interface TemporalConfig {
  readonly address: string;
  readonly namespace: string;
  readonly credentials: TemporalCredentials;
}

export interface Config {
  /** Undefined when not set: then the store is a file in the data folder. */
  readonly storeUrl: string | undefined;
  /** PostgreSQL connections of this process, at most. */
  readonly storeConnections: number;
  readonly appModule: string | undefined;
  readonly workerTargets: readonly string[];
  /** Where the supervisor of this installation runs: in its worker processes, as a Temporal Schedule, or not by this process. */
  readonly supervisor: 'process' | 'schedule' | 'none';
  readonly model: ModelOptions;
  /** Undefined when neither environment nor profile file names a server. */
  readonly temporal: TemporalConfig | undefined;
  readonly path: string;
  readonly cacheHome: string | undefined;
}

/** Errors: `invalid_config` naming each variable. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  // An empty variable is one that is not set.
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value) given[name] = value;
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) throw new CodedError('invalid_config', `environment: ${z.prettifyError(parsed.error)}`);
  const vars = parsed.data;
  return {
    storeUrl: vars.AGENTTURN_STORE,
    storeConnections: vars.AGENTTURN_STORE_CONNECTIONS,
    appModule: vars.AGENTTURN_APP,
    workerTargets: vars.AGENTTURN_WORKER_TARGETS,
    supervisor: vars.AGENTTURN_SUPERVISOR,
    model: { apiKey: vars.OPENAI_API_KEY, baseUrl: vars.OPENAI_BASE_URL, defaultModel: vars.AGENTTURN_MODEL },
    temporal: temporalConfig(given),
    path: vars.PATH,
    cacheHome: vars.XDG_CACHE_HOME,
  };
}

function temporalConfig(env: Record<string, string>): TemporalConfig | undefined {
  const { connectionOptions, namespace } = connectConfig(env);
  // A namespace without an address means the address every Temporal client assumes.
  const address = connectionOptions.address ?? (namespace === undefined ? undefined : 'localhost:7233');
  if (address === undefined) return undefined;
  const { tls, apiKey, metadata } = connectionOptions;
  const credentials = { ...(tls ? { tls } : {}), ...(apiKey ? { apiKey } : {}), ...(metadata ? { metadata } : {}) };
  return { address, namespace: namespace ?? 'default', credentials: credentials as TemporalCredentials };
}

/** Variables and profile file, as the Temporal CLI reads them. */
function connectConfig(env: Record<string, string>): ReturnType<typeof loadClientConnectConfig> {
  try {
    return loadClientConnectConfig({ overrideEnvVars: env });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the Temporal settings (TEMPORAL_* variables and profile file) cannot be used: ${reason}`;
    throw new CodedError('invalid_config', message, { cause: error });
  }
}
