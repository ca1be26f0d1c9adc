/** A program that serves its turns itself, as an app may: it waits for the result of one that never ends, and closes its client on SIGTERM. */
import { connect } from '../../workers/connected-client.ts';
import { startWorker } from '../../workers/index.ts';
import { testApp } from './app.ts';
import { askTool } from './asking.ts';

const [address = '', namespace = '', store = '', baseUrl = '', codePath = ''] = process.argv.slice(2);
const client = await connect({ store, temporal: { address, namespace } });
const worker = await startWorker({
  temporal: client.temporal,
  store: client.store,
  app: testApp([askTool], { name: 'asker' }),
  model: { apiKey: undefined, baseUrl, defaultModel: 'm' },
  bundle: { codePath },
});
const turn = await client.run('asker', { instruction: 'call ask {}', idempotencyKey: `embedded-${process.pid}` });
for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
process.once('SIGTERM', () => void worker.stop().then(() => client.close()));
console.log('waiting');
await turn.result().then(
  ({ status }) => console.log(status),
  (error: { readonly code?: string }) => console.log(error.code),
);
