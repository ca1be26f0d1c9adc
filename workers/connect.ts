/** The connection of a worker, which polls through Temporal's native library. */
import { NativeConnection } from '@temporalio/worker';
import { reachTemporal, type TemporalAddress } from '../client/connect.ts';

/** The addresses at which a machine reaches itself. */
const THIS_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/;

/**
 * Connects, without compression to a server on this machine: it costs processor time on both sides and spares nothing there. One that asks for
 * TLS or a key is reached through a tunnel. Throws `temporal_unreachable`. Whoever connects closes the connection after the workers on it have stopped.
 */
export function connectWorker({ address, credentials }: TemporalAddress): Promise<NativeConnection> {
  const { tls, apiKey, metadata } = credentials ?? {};
  const isHere = THIS_MACHINE.test(address) && !tls && apiKey === undefined;
  const options = {
    address,
    ...(isHere ? { grpcCompression: { codec: 'none' } as const } : {}),
    ...(tls ? { tls } : {}),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata ? { metadata } : {}),
  };
  return reachTemporal(address, () => NativeConnection.connect(options));
}
