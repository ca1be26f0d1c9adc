/** A client in a process of its own: enqueues COUNT requests to one agent at once and prints the acks as JSON. */
import { AgentClient } from '../../client/agent-client.ts';
import { connectClient } from '../../client/connect.ts';
import { openStore } from '../../workers/open-store.ts';

const [address = '', namespace = '', storeUrl = '', agentId = '', count = '0'] = process.argv.slice(2);
const temporal = await connectClient({ address, namespace });
const store = await openStore(storeUrl);
const client = new AgentClient({ temporal: temporal.client, store });
const handles = await Promise.all(
  Array.from({ length: Number(count) }, () =>
    client.agent(agentId).enqueue({ instruction: '[script:answer] go', profile: 'tester' }),
  ),
);
process.stdout.write(JSON.stringify(handles.map((handle) => handle.ack)));
await store.close();
await temporal.connection.close();
