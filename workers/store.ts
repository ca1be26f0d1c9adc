/** `agentturn/store`: open the store that a URL names. */
import './demand-node.ts';

export type { ClientStore, Store } from '../workflows/contract/store.ts';
export { openStore, type StoreAccess, type StoreOptions } from './open-store.ts';
