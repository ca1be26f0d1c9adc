/** The agent of a run: one that is made for one turn. */
import { v5, v7 } from 'uuid';

const NAMESPACE = '0d3f4c1e-6a57-4b53-9d0a-2f4b8a1c7e96';

/** The id of the agent of a run: a new one, or, with an idempotency key, the one that follows from profile and key (T2). */
export const runAgentId = (profile: string, idempotencyKey?: string): string =>
  `run-${idempotencyKey === undefined ? v7() : v5(JSON.stringify([profile, idempotencyKey]), NAMESPACE)}`;
