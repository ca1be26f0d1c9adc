/**
 * The outbox of one write transaction: events and edges are inserted with the fact they state, and the counters of the agents whose head
 * rows the transaction holds are moved with them.
 *
 * Invariants
 * 1. All of it is written at the end of the transaction, in the order in which it was appended, by one statement for each table. Nothing in
 *    a transaction reads what it has appended.
 * 2. Only an agent whose head row the transaction holds is counted for, so sequences have no gaps and no ties.
 */
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { insertRows, updateRows } from '../prepared.ts';
import type { EdgeRow, EventRow } from '../schema/log-rows.ts';
import type { HeadRow, Trx } from '../schema/rows.ts';

/** An event without what the database and the outbox give it. */
export type NewEvent = Omit<EventRow, 'id' | 'seq'>;

/** The counters of an agent: as they are stored, and as this transaction moves them. Nobody else moves them meanwhile. */
interface Counters {
  readonly stored: Pick<HeadRow, 'accept_seq' | 'event_seq' | 'recorded_at'>;
  acceptSeq: number;
  eventSeq: number;
}

/** What one transaction appends. */
export class Outbox {
  readonly #events: NewEvent[] = [];
  readonly #edges: EdgeRow[] = [];
  readonly #counters = new Map<string, Counters>();

  /** Takes the counters from a head row as it was when the transaction locked it; only the first time counts. */
  noteHead(head: Pick<HeadRow, 'agent_id' | 'accept_seq' | 'event_seq' | 'recorded_at'>): void {
    if (this.#counters.has(head.agent_id)) return;
    this.#counters.set(head.agent_id, { stored: head, acceptSeq: head.accept_seq, eventSeq: head.event_seq });
  }

  /** The place of a new turn among all that the agent ever accepted. Errors: `protocol_violation` when its head row is not locked. */
  nextAcceptSeq(agentId: string): number {
    const counters = this.#countersOf(agentId);
    counters.acceptSeq += 1;
    return counters.acceptSeq;
  }

  /** Appends an event; it gets its place among those of its agent at the end of the transaction. */
  addEvent(event: NewEvent): void {
    this.#events.push(event);
  }

  /** Appends an edge; one that is there already stays as it is. */
  addEdge(edge: EdgeRow): void {
    this.#edges.push(edge);
  }

  /**
   * Writes what was appended; the last thing that the transaction does. Tells whether a turn has ended by it. Errors: `protocol_violation`
   * when the head row of an event's agent is not locked.
   */
  async flush(trx: Trx, at: number): Promise<{ readonly turnEnded: boolean }> {
    const events = this.#events.map((event) => ({ ...event, seq: this.#nextEventSeq(event.agent_id) }));
    for (const [agentId, counters] of this.#counters) await storeCounters(trx, agentId, counters, at);
    await insertRows(trx, 'events', events);
    await insertRows(trx, 'execution_edges', this.#edges, ['edge_key']);
    return { turnEnded: events.some((event) => event.type === 'task') };
  }

  #nextEventSeq(agentId: string): number {
    const counters = this.#countersOf(agentId);
    counters.eventSeq += 1;
    return counters.eventSeq;
  }

  #countersOf(agentId: string): Counters {
    const known = this.#counters.get(agentId);
    if (known) return known;
    throw new CodedError('protocol_violation', `the head row of agent ${agentId} is not locked: nothing was written`);
  }
}

async function storeCounters(
  trx: Trx,
  agentId: string,
  { stored, acceptSeq, eventSeq }: Counters,
  at: number,
): Promise<void> {
  if (acceptSeq === stored.accept_seq && eventSeq === stored.event_seq) return;
  const counted = { accept_seq: acceptSeq, event_seq: eventSeq, recorded_at: at };
  await updateRows(trx, 'agent_state_head', { agent_id: agentId }, counted);
}
