/**
 * What bounds the bytes of one response of a provider (W15), and keeps its connection for the next call.
 *
 * Invariants
 * 1. A response never has more bytes than a model's answer can need: the client keeps what it reads.
 * 2. A response whose reader has what it wants is read on for a moment. The client leaves at the event that ends an answer, and from most
 *    servers the end of the response comes in a packet of its own. To leave before it closes the connection, and the next call has to make
 *    another one.
 */
import { Overlong } from './stream-guard.ts';

const MIB = 1024 * 1024;
/** Bytes of a whole response: what the largest reply takes when each of its tokens comes in a chunk of its own. */
const STREAM_BYTES = 64 * MIB;
/** Bytes of one line, which holds one chunk. */
const LINE_BYTES = 8 * MIB;
/** Bytes of a response that is an error; one that says more is cut. */
const ERROR_BYTES = 16 * 1024;
/** How long a response that nobody reads any more is read on, and how many bytes of it. */
const LEFT_MS = 1_000;
const LEFT_BYTES = 64 * 1024;

type Bytes = Uint8Array<ArrayBuffer>;
type Reader = ReadableStreamDefaultReader<Bytes>;

/** Takes a chunk of a response; returns what of it is read, and whether the response goes on. Errors: `Overlong`. */
type Bound = (chunk: Bytes) => { readonly read: Bytes; readonly goesOn: boolean };

/** Does what `fetch` does, with responses of bounded length. */
export const boundedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.body) return response;
  const { ok, status, statusText, headers } = response;
  const body = bounded(response.body.getReader(), ok ? answerBound() : errorBound());
  return new Response(body, { status, statusText, headers });
};

/** The same bytes as far as they are within bounds. */
function bounded(reader: Reader, bound: Bound): ReadableStream<Bytes> {
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        try {
          const { read, goesOn } = bound(value);
          controller.enqueue(read);
          if (goesOn) return;
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        leave(reader);
      },
      // Nobody waits for what comes of it.
      cancel: () => void readOn(reader),
    },
    { highWaterMark: 0 },
  );
}

/** Ends a response before its end, and with it its connection. */
const leave = (reader: Reader): void => void reader.cancel().catch(() => {});

async function readOn(reader: Reader): Promise<void> {
  const late = setTimeout(() => leave(reader), LEFT_MS);
  try {
    for (let bytes = 0; bytes <= LEFT_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      bytes += value.length;
    }
    leave(reader);
  } catch {
    // The call was aborted, or its connection broke: there is nothing left to keep.
  } finally {
    clearTimeout(late);
  }
}

/** Fails when the response or one of its lines is too long. */
function answerBound(): Bound {
  let all = 0;
  let line = 0;
  return (chunk) => {
    all += chunk.length;
    const newline = Math.max(chunk.lastIndexOf(10), chunk.lastIndexOf(13));
    line = newline < 0 ? line + chunk.length : chunk.length - newline - 1;
    if (all <= STREAM_BYTES && line <= LINE_BYTES) return { read: chunk, goesOn: true };
    throw new Overlong(`the model sent more than ${(line > LINE_BYTES ? LINE_BYTES : STREAM_BYTES) / MIB} MiB`);
  };
}

/** Ends the response when it is too long. */
function errorBound(): Bound {
  let left = ERROR_BYTES;
  return (chunk) => {
    const read = chunk.subarray(0, left);
    left -= read.length;
    return { read, goesOn: left > 0 };
  };
}
