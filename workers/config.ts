/**
 * The environment of a process, read once and validated.
 *
 * Invariant: nothing else in the project reads it.
 */
import { readFile } from 'node:fs/promises';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { z } from 'zod';
import type { ModelOptions } from '../activities/llm/openai.ts';
import { DEFAULT_CONNECTIONS, FEWEST_CONNECTIONS } from '../activities/store/postgres/connections.ts';
import type { TemporalCredentials } from '../client/connect.ts';
import { SIGNING_KEY_BYTES } from '../client/gateway/callback-tokens.ts';
import { TENANT_PATTERN } from '../workflows/contract/border.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { DEFAULT_WORKER_TARGET, WORKER_TARGET_PATTERN } from '../workflows/protocol/ids.ts';
import { LOG_FORMATS, type LogFormat } from './log-format.ts';
import type { StoreAccess } from './open-store.ts';

/** The model of profiles that name none, where AGENTTURN_MODEL names none either. */
export const DEFAULT_MODEL = 'gpt-5-mini';

const storeUrl = z.string().regex(/^(sqlite:|postgres(ql)?:\/\/).+/, { error: 'must be sqlite:PATH or postgres://…' });

const postgresUrl = z.string().regex(/^postgres(ql)?:\/\/.+/, { error: 'must be postgres://…' });

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

const port = z.string().regex(/^\d+$/, { error: 'must be a whole number' }).transform(Number).pipe(z.int().max(65_535));

const signingKeys = z
  .string()
  .transform((text) => text.split(',').map((key) => key.trim()))
  .refine((keys) => keys.every((key) => Buffer.byteLength(key) >= SIGNING_KEY_BYTES), {
    error: `must have at least ${SIGNING_KEY_BYTES} bytes, each key if there are several; make one with "openssl rand -hex 32"`,
  });

const webUrl = z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' });

const environmentSchema = z.object({
  AGENTTURN_STORE: storeUrl.optional(),
  AGENTTURN_STORE_DIRECT: postgresUrl.optional(),
  AGENTTURN_STORE_PASSWORD_FILE: z.string().min(1).optional(),
  AGENTTURN_STORE_CONNECTIONS: connections.default(DEFAULT_CONNECTIONS),
  AGENTTURN_APP: z.string().min(1).optional(),
  AGENTTURN_MODEL: z.string().min(1).default(DEFAULT_MODEL),
  AGENTTURN_WORKER_TARGETS: targets.default([DEFAULT_WORKER_TARGET]),
  AGENTTURN_LOG: z.enum(LOG_FORMATS).default('text'),
  AGENTTURN_JOURNAL: z.string().min(1).optional(),
  AGENTTURN_SUPERVISOR: z.enum(['process', 'schedule', 'none']).default('process'),
  AGENTTURN_GATEWAY_PORT: port.optional(),
  AGENTTURN_GATEWAY_TOKEN: z.string().min(16, { error: 'must have at least 16 characters' }).optional(),
  AGENTTURN_GATEWAY_TOKENS: z.string().min(1).optional(),
  AGENTTURN_GATEWAY_WEBHOOKS: z.string().min(1).optional(),
  AGENTTURN_TENANT: z
    .string()
    .regex(TENANT_PATTERN, { error: `must be a name as ${TENANT_PATTERN}` })
    .optional(),
  AGENTTURN_GATEWAY_URL: webUrl.optional(),
  AGENTTURN_SIGNING_KEY: signingKeys.optional(),
  OPENAI_API_KEY: z.string().min(1).optional(),
  OPENAI_BASE_URL: webUrl.optional(),
  PATH: z.string().default(''),
  XDG_CACHE_HOME: z.string().min(1).optional(),
});

/** The Temporal server that the environment or a profile file names. */
export interface TemporalConfig {
  readonly address: string;
  readonly namespace: string;
  readonly credentials: TemporalCredentials;
}

/** The settings of a process, with their defaults filled in. */
export interface Config {
  /** The URL of the store; undefined when the environment names none, and then the store is a file in the data folder. */
  readonly storeUrl: string | undefined;
  /** How a PostgreSQL store is reached. */
  readonly storeAccess: StoreAccess;
  /** The tenant that commands of a client act for; undefined for all there is. */
  readonly tenant: string | undefined;
  /** The path of the module with the app; undefined when the environment names none. */
  readonly appModule: string | undefined;
  /** The targets that a worker serves unless its command names others. */
  readonly workerTargets: readonly string[];
  /** Where the supervisor of this installation runs: in its worker processes, as a Temporal Schedule, or not by this process. */
  readonly supervisor: 'process' | 'schedule' | 'none';
  /** The folder with the journals of chat sessions; null where they are switched off, undefined when the environment says nothing. */
  readonly journal: string | null | undefined;
  /** How lines of the log are written. */
  readonly logFormat: LogFormat;
  /** What a gateway takes from the environment; each undefined when it names none. */
  readonly gateway: {
    readonly port: number | undefined;
    /** A token that may do everything. */
    readonly token: string | undefined;
    /** The file with the hashes of tokens. */
    readonly tokensFile: string | undefined;
    /** The file with webhooks. */
    readonly webhooksFile: string | undefined;
    /** Where third parties reach it. */
    readonly url: string | undefined;
  };
  /** The keys by which callbacks are signed: the first one signs, all are known. Undefined when the environment names none. */
  readonly signingKeys: readonly string[] | undefined;
  /** The endpoint of the model and its default name; neither key nor URL is there when the environment names no endpoint. */
  readonly model: ModelOptions;
  /** The Temporal server to use; undefined when neither the environment nor a profile file names one. */
  readonly temporal: TemporalConfig | undefined;
  /** The folders in which programs are looked up, as PATH lists them. */
  readonly path: string;
  /** The folder for caches that XDG_CACHE_HOME names; undefined when it names none. */
  readonly cacheHome: string | undefined;
}

/**
 * The settings that an environment holds; an empty variable counts as one that is not set. Throws `invalid_config`, which names each
 * variable that is wrong.
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value) given[name] = value;
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map(
      ({ path: [name], message }) => `${String(name)} ${message}${cameIn(given, String(name))}`,
    );
    throw new CodedError('invalid_config', `environment: ${wrong.join('; ')}`);
  }
  const vars = parsed.data;
  return {
    storeUrl: vars.AGENTTURN_STORE,
    storeAccess: storeAccess(vars),
    tenant: vars.AGENTTURN_TENANT,
    appModule: vars.AGENTTURN_APP,
    workerTargets: vars.AGENTTURN_WORKER_TARGETS,
    supervisor: vars.AGENTTURN_SUPERVISOR,
    journal: vars.AGENTTURN_JOURNAL === 'off' ? null : vars.AGENTTURN_JOURNAL,
    logFormat: vars.AGENTTURN_LOG,
    gateway: {
      port: vars.AGENTTURN_GATEWAY_PORT,
      token: vars.AGENTTURN_GATEWAY_TOKEN,
      tokensFile: vars.AGENTTURN_GATEWAY_TOKENS,
      webhooksFile: vars.AGENTTURN_GATEWAY_WEBHOOKS,
      url: vars.AGENTTURN_GATEWAY_URL,
    },
    signingKeys: vars.AGENTTURN_SIGNING_KEY,
    model: { apiKey: vars.OPENAI_API_KEY, baseUrl: vars.OPENAI_BASE_URL, defaultModel: vars.AGENTTURN_MODEL },
    temporal: temporalConfig(given),
    path: vars.PATH,
    cacheHome: vars.XDG_CACHE_HOME,
  };
}

function storeAccess(vars: z.infer<typeof environmentSchema>): StoreAccess {
  const { AGENTTURN_STORE_DIRECT: direct, AGENTTURN_STORE_PASSWORD_FILE: file } = vars;
  return {
    connections: vars.AGENTTURN_STORE_CONNECTIONS,
    ...(direct === undefined ? {} : { direct }),
    // Read for each connection: whoever changes the password writes the file anew.
    ...(file === undefined ? {} : { password: async () => (await readFile(file, 'utf8')).trimEnd() }),
  };
}

/** Variables whose values are not to be printed, or may hold a password. */
const SECRET = /KEY|TOKEN$|^AGENTTURN_STORE(_DIRECT)?$/;

/** What a variable holds, for an error about it. */
const cameIn = (given: Readonly<Record<string, string>>, name: string): string =>
  SECRET.test(name) || given[name] === undefined ? '' : `, and is ${JSON.stringify(given[name])}`;

function temporalConfig(env: Record<string, string>): TemporalConfig | undefined {
  const { connectionOptions, namespace } = connectConfig(env);
  // A namespace without an address means the address every Temporal client assumes.
  const address = connectionOptions.address ?? (namespace === undefined ? undefined : 'localhost:7233');
  if (address === undefined) return undefined;
  const { tls, apiKey, metadata } = connectionOptions;
  const credentials = { ...(tls ? { tls } : {}), ...(apiKey ? { apiKey } : {}), ...(metadata ? { metadata } : {}) };
  return { address, namespace: namespace ?? 'default', credentials: credentials as TemporalCredentials };
}

/** The variables and the profile file of Temporal, read as the Temporal CLI reads them. */
function connectConfig(env: Record<string, string>): ReturnType<typeof loadClientConnectConfig> {
  try {
    return loadClientConnectConfig({ overrideEnvVars: env });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the Temporal settings (TEMPORAL_* variables and profile file) cannot be used: ${reason}`;
    throw new CodedError('invalid_config', message, { cause: error });
  }
}
