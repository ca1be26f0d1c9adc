/**
 * What bounds the bytes of one response of a provider (W15), and keeps its connection for the next call.
 *
 * Invariants
 * 1. A response never has more bytes than a model's answer can need: the client keeps what it reads.
 * 2. A response whose reader has what it wants is read on for a moment. The client leaves at the event that ends an answer, and from most
 *    servers the end of the response comes in a packet of its own. To leave before it closes the connection, and the next call has to make
 *    another one.
 */
import { Overlong, StreamFailure } from './stream-guard.ts';

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

/**
 * Does what `fetch` does, with responses of bounded length. An answer that is no stream becomes one: some gateways send it whole. Errors: a
 * `StreamFailure` for what is no answer at all, such as a page.
 */
export const boundedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.body) return response;
  const { ok, status, statusText, headers } = response;
  const body = bounded(response.body.getReader(), ok ? answerBound() : errorBound());
  const [kind = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';');
  if (ok && kind === 'text/html') {
    await body.cancel();
    throw new StreamFailure('it answers with a page, text/html');
  }
  if (ok && kind === 'application/json') return asEvents(body);
  if (!ok)
    return new Response(inObject(await new Response(body).text()), { status, statusText, headers: plain(headers) });
  return new Response(body, { status, statusText, headers });
};

const BRACE = 0x7b;
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** The body as a stream of events: one that is a JSON object is the only event, and any other is taken for events whatever it is called. */
function asEvents(body: ReadableStream<Bytes>): Response {
  let whole: Bytes[] | null | undefined;
  let size = 0;
  const events = new TransformStream<Bytes, Bytes>({
    transform(chunk, controller) {
      const first = chunk.find((byte) => !BLANKS.has(byte));
      if (whole === undefined && first !== undefined) whole = first === BRACE ? [] : null;
      if (!whole) return controller.enqueue(chunk);
      size += chunk.length;
      // It becomes one line, whatever lines it has.
      if (size > LINE_BYTES) throw new Overlong(`the model sent more than ${LINE_BYTES / MIB} MiB`);
      whole.push(chunk);
    },
    flush(controller) {
      if (!whole) return;
      const json = Buffer.concat(whole)
        .toString()
        .replace(/[\r\n]+/g, ' ');
      controller.enqueue(new TextEncoder().encode(`data: ${json}\n\ndata: [DONE]\n\n`));
    },
  });
  return new Response(body.pipeThrough(events), { headers: { 'content-type': 'text/event-stream' } });
}

/** The error as the client reads it: some providers put an array around it. */
function inObject(text: string): string {
  if (!text.trimStart().startsWith('[')) return text;
  try {
    const [error] = JSON.parse(text) as readonly unknown[];
    return JSON.stringify(error ?? null);
  } catch {
    return text;
  }
}

/** The headers of a body that was decoded, and may have another length. */
function plain(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of ['content-length', 'content-encoding']) kept.delete(name);
  return kept;
}

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
