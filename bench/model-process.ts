/** The model of the bench, in a process of its own so that its work is not counted as the worker's or the client's. */
import { startScriptedModel } from '../workers/model-server/scripted.ts';
import { serveParent } from './child.ts';
import { answerOf } from './workload.ts';

await serveParent(async () => {
  const server = await startScriptedModel({ default: answerOf }, { keepRequests: 1 });
  return { served: { stop: () => server.close() }, value: server.url };
});
