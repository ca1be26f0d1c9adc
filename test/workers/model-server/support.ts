/** What the tests of the model servers share: a client without retries and a caught refusal. */
import OpenAI, { APIError } from 'openai';
import type { ModelServer } from '../../../workers/model-server/wire.ts';

export function clientOf(server: Pick<ModelServer, 'url'>): OpenAI {
  return new OpenAI({ baseURL: server.url, apiKey: 'none', maxRetries: 0, timeout: 10_000 });
}

export async function refusalOf(request: Promise<unknown>): Promise<APIError> {
  const error = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof APIError)) throw new Error(`expected the API to refuse, got ${String(error)}`);
  return error;
}
