/** A gateway in a process of its own, as `agentturn gateway` runs it. */
import { keptToken, SCOPES } from '../../client/gateway/caller.ts';
import { Cleanup } from '../../workers/commands/cleanup.ts';
import { serveGateway } from '../../workers/commands/gateway.ts';
import { keepHeapSmall } from '../../workers/heap.ts';
import { openStore } from '../../workers/open-store.ts';
import { serveParent } from '../child.ts';
import { TOKEN } from './token.ts';

export interface GatewayArgument {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
}

keepHeapSmall();
await serveParent(async (argument) => {
  const { address, namespace, storeUrl } = argument as GatewayArgument;
  const cleanup = new Cleanup();
  const store = await openStore(storeUrl);
  cleanup.add(() => store.close());
  const tokens = [keptToken(TOKEN, { name: 'bench', scopes: [...SCOPES] })];
  const log = (line: string) => console.error(line);
  const at = { address, namespace };
  const { url } = await serveGateway({ at, store, tokens, listenAt: { host: '127.0.0.1', port: 0 }, log }, cleanup);
  return { served: { stop: async () => void (await cleanup.run()) }, value: url };
});
