/** Whether a Temporal server answers: asked at most every two seconds, however many want to know. */
import type { Connection } from '@temporalio/client';

const FRESH_MS = 2_000;
const ANSWER_MS = 2_000;

/** A function that says whether the server answers, as of a moment ago. */
export function reachability(connection: Connection): () => Promise<boolean> {
  let asked: Promise<boolean> | null = null;
  let askedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (asked && performance.now() - askedAt < FRESH_MS) return asked;
    askedAt = performance.now();
    asked = connection
      .withDeadline(Date.now() + ANSWER_MS, async () => {
        await connection.ensureConnected();
        await connection.workflowService.getSystemInfo({});
      })
      .then(
        () => true,
        () => false,
      );
    return asked;
  };
}
