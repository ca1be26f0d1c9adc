/**
 * Heartbeats by a timer of their own, so that silence means a lost worker and not a slow model or tool (T23). What ends before the first one
 * costs the server no write.
 */
import { Context } from '@temporalio/activity';

const HEARTBEAT_EVERY_MS = 5_000;

export async function withHeartbeat<T>(body: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_EVERY_MS);
  try {
    return await body(context.cancellationSignal);
  } finally {
    clearInterval(timer);
  }
}
