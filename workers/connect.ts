/** The connection of a worker, which polls through Temporal's native library. */
import { NativeConnection } from '@temporalio/worker';
import { reachTemporal, type TemporalAddress } from '../client/connect.ts';

/** Throws `temporal_unreachable`. Whoever connects closes the connection after the workers on it have stopped. */
export function connectWorker({ address, credentials }: TemporalAddress): Promise<NativeConnection> {
  const { tls, apiKey, metadata } = credentials ?? {};
  const options = {
    address,
    ...(tls ? { tls } : {}),
    ...(typeof apiKey === 'string' ? { apiKey } : {}),
    ...(metadata ? { metadata } : {}),
  };
  return reachTemporal(address, () => NativeConnection.connect(options));
}
