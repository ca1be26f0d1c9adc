/** A leased turn before a model that answers as told. */

import type { App } from '../../../activities/app/app.ts';
import { callModel } from '../../../activities/llm/call-model.ts';
import { ChunkWriter } from '../../../activities/llm/chunk-writer.ts';
import { openAiModel } from '../../../activities/llm/openai.ts';
import {
  type ChatRequest,
  type ModelAnswer,
  type ModelServer,
  startModelServer,
} from '../../../workers/model-server/wire.ts';
import type { EnqueueInput } from '../../../workflows/protocol/enqueue.ts';
import { testApp } from '../../support/app.ts';
import { type LeasedTurn, leaseTurn } from './leased-turn.ts';

/** The key of the worker, none of whose words another text would have. */
export const API_KEY = 'key-of-the-worker-0123';

const open: { close(): Promise<void> }[] = [];

/** Closes the stores and servers of all benches so far. */
export async function closeBenches(): Promise<void> {
  await Promise.all(open.splice(0).map((each) => each.close()));
}

export interface Bench {
  readonly turn: LeasedTurn;
  readonly server: ModelServer;
  readonly run: ReturnType<typeof callModel>;
}

export async function bench(
  answer: ModelAnswer | ((request: ChatRequest) => ModelAnswer),
  { app = testApp([]), request = {} }: { app?: App; request?: Partial<EnqueueInput> } = {},
): Promise<Bench> {
  const turn = await leaseTurn(app, request);
  const server = await startModelServer({ answer: typeof answer === 'function' ? answer : () => answer });
  open.push(turn, server);
  const model = openAiModel({ apiKey: API_KEY, baseUrl: server.url, defaultModel: 'default-model' });
  return { turn, server, run: callModel({ store: turn.store, app, model, chunks: new ChunkWriter(turn.store) }) };
}

/** The cards of the turn so far, the instruction first. */
export const cardsOf = async ({ turn }: Bench) =>
  (await turn.store.readBox(turn.lease.outputBoxId)).map(({ card }) => card);
/** What a run is rejected with; undefined when it is not. */
export const failureOf = (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => undefined,
    (error: unknown) => error,
  );
