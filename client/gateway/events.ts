/** Events of the log and parts of a stream as server-sent events, and where a reader goes on. */
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { StreamPart } from '../stream-parts.ts';
import type { ServerSentEvent } from './event-stream.ts';

/** Refuses to follow an agent that is out of view: it would be waited for for ever. Errors: `agent_not_found`. */
export async function demandInView(store: Pick<ReadStore, 'getAgent'>, agentId: string): Promise<void> {
  await store.getAgent(agentId);
}

/** Events with their `seq` as id. */
export async function* logEventsOf(events: AsyncIterable<AgentEvent>): AsyncGenerator<ServerSentEvent, void> {
  for await (const event of events) yield { id: String(event.seq), event: event.type, data: event };
}

/** Parts of a turn's stream, or of a session's, with their cursor as id. */
export async function* streamPartsOf(
  parts: AsyncIterable<Pick<StreamPart, 'cursor'> & { readonly type: string }>,
): AsyncGenerator<ServerSentEvent, void> {
  for await (const part of parts) yield { id: part.cursor, event: part.type, data: part };
}

/** The `seq` behind which a reader goes on; 0 for the beginning. Errors: `invalid_request` for one that the agent, or the turn, has not come to. */
export async function checkSeq(
  store: Pick<ReadStore, 'readEvents'>,
  of: { readonly agentId: string; readonly agentTurnId?: string },
  after: string | number | undefined,
): Promise<number> {
  const seq = Number(after ?? 0);
  if (!/^\d{1,15}$/.test(String(after ?? 0)))
    throw new CodedError('invalid_request', 'Last-Event-ID must be the id of an event of this log, a whole number');
  if (seq === 0) return 0;
  const [event] = await store.readEvents({ ...of, afterSeq: seq - 1, limit: 1 });
  if (event?.seq === seq) return seq;
  throw new CodedError('invalid_request', `agent ${of.agentId} has no event ${seq} yet; go on behind one that it has`);
}
