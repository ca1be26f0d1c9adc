/**
 * Server-sent events of an async iterator.
 *
 * Invariants
 * 1. The iterator is asked for the next item only when the reader has taken the one before: a slow reader holds one item, and nobody up.
 * 2. The iterator ends when its reader leaves, and when the gateway stops; a reader that comes back with the id of the last event misses nothing.
 */
import { Pending } from '../pending.ts';
import { type Problem, problemOf } from './problems.ts';

/** One event on the wire. */
export interface ServerSentEvent {
  /** What a reader that comes back sends as `Last-Event-ID`. */
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
}

/** How a stream ends on the wire. */
export interface StreamEnding {
  /** What says that this was all. */
  readonly done: string;
  /** What says that it failed. */
  failure(problem: Problem): string;
  readonly headers?: Readonly<Record<string, string>>;
}

const ENDING: StreamEnding = {
  done: 'event: done\ndata: {}\n\n',
  failure: (problem) => `event: error\ndata: ${JSON.stringify(problem)}\n\n`,
};

/** A stream and what ends it. */
export interface EventStreamOptions {
  readonly ending?: StreamEnding | undefined;
  /** Makes the iterator; its signal fires when the reader has left or the gateway stops. */
  readonly open: (signal: AbortSignal) => AsyncIterator<ServerSentEvent>;
  /** Fires when the gateway stops. */
  readonly stopping: AbortSignal;
  /** Called once, at the end. */
  readonly closed: () => void;
  readonly onError: (error: unknown) => void;
}

/** A comment is sent when nothing else was for so long, so that nobody on the way takes the connection for dead. */
const QUIET_MS = 15_000;
/** After how long a reader whose connection broke comes back, ms. */
const RETRY_MS = 1_000;

const encoder = new TextEncoder();

const textOf = ({ id, event, data }: ServerSentEvent): string =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** The response that sends the events, each as soon as the iterator has it. */
export function eventStream({ open, stopping, closed, onError, ending = ENDING }: EventStreamOptions): Response {
  const left = new AbortController();
  const signal = AbortSignal.any([left.signal, stopping]);
  const events = open(signal);
  let next: Pending<IteratorResult<ServerSentEvent>> | null = null;
  let wake = () => {};
  const timer = setInterval(() => wake(), QUIET_MS).unref();
  let over = false;
  const end = () => {
    if (over) return;
    over = true;
    clearInterval(timer);
    left.abort();
    closed();
  };
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(`retry: ${RETRY_MS}\n\n`)),
      async pull(controller) {
        try {
          next ??= new Pending(events.next(), () => wake());
          if (!next.isDone)
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
          if (!next.isDone) return controller.enqueue(encoder.encode(': still there\n\n'));
          const came = next.take();
          next = null;
          if (!came.done) return controller.enqueue(encoder.encode(textOf(came.value)));
          // A reader whose stream only broke comes back; this one need not.
          if (!signal.aborted) controller.enqueue(encoder.encode(ending.done));
        } catch (error) {
          onError(error);
          controller.enqueue(encoder.encode(ending.failure(problemOf(error))));
        }
        end();
        controller.close();
      },
      cancel: end,
    },
    // Nothing is asked for before somebody reads.
    { highWaterMark: 0 },
  );
  const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' };
  return new Response(body, { headers: { ...headers, ...ending.headers } });
}
