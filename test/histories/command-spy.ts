/**
 * A workflow interceptor for replays: hands every command the current code issues to the sink `spy`, so that a test can compare their
 * values with the recorded ones. Replay itself compares only which commands come in which order.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

export interface SpySinks extends Sinks {
  spy: {
    /** The commands of one activation, as JSON of their protobuf objects. */
    issued(commands: string): void;
  };
}

const { spy } = proxySinks<SpySinks>();

export const interceptors = (): WorkflowInterceptors => ({
  internals: [
    {
      concludeActivation(input, next) {
        const output = next(input);
        // As text, for class instances would not survive the way out of the sandbox.
        if (output.commands.length > 0) spy.issued(JSON.stringify(output.commands, asPlain));
        return output;
      },
    },
  ],
});

/** Payload data is JSON text in bytes; marked, because a history file has base64 in its place. */
function asPlain(_key: string, value: unknown): unknown {
  return value instanceof Uint8Array ? { text: new TextDecoder().decode(value) } : value;
}
