/**
 * How workflows read what was sent to them: as the SDK does, except that a payload which cannot be decoded becomes a text that says so.
 *
 * Invariant: reading never throws. A throw here would fail the workflow task and every retry of it, so that one malformed message of a
 * foreign client stopped an agent (T8).
 */
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';

function fromPayload<T>(payload: Payload): T {
  try {
    return defaultPayloadConverter.fromPayload<T>(payload);
  } catch (error) {
    return `a payload that cannot be decoded: ${error instanceof Error ? error.message : String(error)}` as T;
  }
}

/** The payload converter of the workflow sandbox. The bundler finds it by the path of this file (workers/worker.ts) and by this name. */
export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  fromPayload,
};
