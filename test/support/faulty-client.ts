/** A Temporal client whose calls can be made to fail, or held back, at the wire: by the name of the gRPC method. */
import { InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';

export interface WireFaults {
  /** Methods that answer `UNAVAILABLE`, like ListWorkflowExecutions. */
  readonly failing: Set<string>;
  /** Answers of these methods are held back until the promise resolves. */
  readonly held: Map<string, Promise<void>>;
}

export interface FaultyClient {
  readonly client: Client;
  readonly faults: WireFaults;
  close(): Promise<void>;
}

export async function connectFaulty(address: string, namespace: string): Promise<FaultyClient> {
  const faults: WireFaults = { failing: new Set(), held: new Map() };
  const connection = await Connection.connect({ address, interceptors: [interceptorOf(faults)] });
  return { client: new Client({ connection, namespace }), faults, close: () => connection.close() };
}

const interceptorOf =
  ({ failing, held }: WireFaults): Interceptor =>
  (options, nextCall) => {
    const method = options.method_definition.path.split('/').at(-1) ?? '';
    if (failing.has(method)) {
      return new InterceptingCall(nextCall(options), {
        start(_metadata, listener) {
          listener.onReceiveStatus({
            code: status.UNAVAILABLE,
            details: `${method} is down`,
            metadata: new Metadata(),
          });
        },
        sendMessage() {},
        halfClose() {},
      });
    }
    const until = held.get(method);
    if (!until) return new InterceptingCall(nextCall(options));
    return new InterceptingCall(nextCall(options), {
      start(metadata, _listener, next) {
        next(metadata, {
          onReceiveMessage: (message, deliver) => void until.then(() => deliver(message)),
          onReceiveStatus: (ended, deliver) => void until.then(() => deliver(ended)),
        });
      },
    });
  };
