/** The model that a command works with: the configured endpoint, or the offline model of this project, which is announced as such. */
import { z } from 'zod';
import type { ModelOptions } from '../../activities/llm/openai.ts';
import { withoutTrailing } from '../../client/trailing.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { OFFLINE_MODEL, startOfflineModel } from '../demo/answerer/offline.ts';
import { isConfigured, modelName } from '../model-options.ts';
import type { Cleanup } from './cleanup.ts';

const OPENAI_URL = 'https://api.openai.com/v1';
const PREFLIGHT_MS = 5_000;

/** A model with what people are to know of it. */
export interface ChosenModel {
  /** The endpoint of the model and its default name. */
  readonly options: ModelOptions;
  /** Whether this is the offline model, which is rules and no language model. */
  readonly offline: boolean;
  /** The model and its endpoint as a phrase for people, the same for all processes that use them. */
  readonly name: string;
  /** A line for people that says which model is used. */
  readonly announcement: string;
}

/** The configured model, or else the offline model on a server that `cleanup` closes. */
export async function chooseModel(configured: ModelOptions, cleanup: Cleanup): Promise<ChosenModel> {
  if (isConfigured(configured)) {
    const name = modelName(configured);
    return { options: configured, offline: false, name, announcement: `model: ${name}` };
  }
  const server = await startOfflineModel();
  cleanup.add(() => server.close());
  return {
    options: { apiKey: undefined, baseUrl: server.url, defaultModel: OFFLINE_MODEL },
    offline: true,
    name: 'the offline model',
    announcement:
      'model: offline, a weak rule-based stand-in and no language model; set OPENAI_API_KEY or OPENAI_BASE_URL for a real one',
  };
}

/**
 * Asks the endpoint for its models, so that a mistake shows before anything starts. Throws `provider_error` when it does not answer or
 * fails, and `provider_auth` when it refuses the credentials.
 */
export async function checkModelEndpoint(options: ModelOptions): Promise<void> {
  await listed(options);
}

/** What the endpoint says of its models. Errors: `provider_error`, `provider_auth`. */
async function listed(options: ModelOptions): Promise<EndpointAnswer> {
  const { baseUrl = OPENAI_URL, apiKey } = options;
  const answer = await ask(options, '/models');
  const { status, url } = answer;
  // 403 may only mean that the key must not list models, and 404 that the server has no such list.
  if (status === 401) {
    const message = `the model endpoint ${baseUrl} refused the credentials (401); ${apiKey === undefined ? 'set' : 'correct'} OPENAI_API_KEY`;
    throw new CodedError('provider_auth', message);
  }
  if (status >= 500) {
    const message = `the model endpoint ${baseUrl} fails (${status} from ${url}); check it, or correct OPENAI_BASE_URL`;
    throw new CodedError('provider_error', message);
  }
  return answer;
}

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/**
 * The names that the endpoint does not know: it lists other models, and has nothing to say of these. None where it lists no models. Errors:
 * those of `checkModelEndpoint`.
 */
export async function unknownModels(options: ModelOptions, names: readonly string[]): Promise<string[]> {
  const list = listSchema.safeParse((await listed(options)).body);
  if (!list.success || list.data.data.length === 0) return [];
  const known = new Set(list.data.data.map(({ id }) => id));
  const unknown: string[] = [];
  for (const name of names.filter((each) => !known.has(each))) {
    // An endpoint may serve more than it lists.
    const { status } = await ask(options, `/models/${encodeURIComponent(name)}`);
    if (status === 404) unknown.push(name);
  }
  return unknown;
}

/** An answer of the endpoint; its body is undefined where it is no JSON. */
interface EndpointAnswer {
  readonly url: string;
  readonly status: number;
  readonly body: unknown;
}

/** Errors: `provider_error` when nothing answers. */
async function ask({ apiKey, baseUrl = OPENAI_URL }: ModelOptions, path: string): Promise<EndpointAnswer> {
  const url = `${withoutTrailing(baseUrl, '/')}${path}`;
  const headers = { authorization: `Bearer ${apiKey ?? 'none'}` };
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(PREFLIGHT_MS) });
    const text = await response.text();
    return { url, status: response.status, body: jsonOf(text) };
  } catch (error) {
    const message = `the model endpoint ${baseUrl} does not answer (${reasonOf(error)}); correct OPENAI_BASE_URL or start its server`;
    throw new CodedError('provider_error', message, { cause: error });
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * What is wrong with the endpoint, as a line for people; null when it answers and takes the credentials. A worker starts all the same: its turns
 * wait, and go on when the endpoint heals.
 */
export async function modelWarning(options: ModelOptions): Promise<string | null> {
  try {
    await checkModelEndpoint(options);
    return null;
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    return `warning [${error.code}]: ${error.message}; turns that need the model wait for it`;
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `nothing within ${PREFLIGHT_MS / 1_000} s`;
  return error.cause instanceof Error ? error.cause.message || String(error.cause) : error.message;
}
