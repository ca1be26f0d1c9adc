/**
 * The deterministic ids of rows, boxes and cards.
 *
 * Invariant: an id is a UUIDv5 of what the row stands for, so that a retry of the same write makes the same row (T29).
 */
import { hash } from 'node:crypto';
import { parse } from 'uuid';
import { agentIdFor } from '../workflows/contract/border.ts';
import type { BoxExtent } from '../workflows/kernel/handles.ts';

const NAMESPACE = parse('5b9f0b52-8c5e-4f0e-9d0f-0f6d0f8b7a11');

/** A UUIDv5 (RFC 9562, 5.5). A turn makes some fifty; `v5` of the package takes four times as long. */
function derive(...parts: readonly (string | number | readonly string[])[]): string {
  const digest = hash('sha1', Buffer.concat([NAMESPACE, Buffer.from(JSON.stringify(parts))]));
  const variant = ((Number.parseInt(digest.slice(16, 17), 16) & 0b0011) | 0b1000).toString(16);
  const groups = [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `5${digest.slice(13, 16)}`,
    `${variant}${digest.slice(17, 20)}`,
    digest.slice(20, 32),
  ];
  return groups.join('-');
}

/** What sets the ids of a tenant apart from those of others. */
const of = (tenant: string | null): readonly string[][] => (tenant === null ? [] : [[tenant]]);

/**
 * The id of a card that a client writes as input. It follows from the text, so that writing the text again, for a retry with the same
 * idempotency key, gives the same id; tenants that write the same text have cards of their own. `index` tells equal texts of one context box
 * apart.
 */
export const inputCardId = (text: string, index = 0, tenant: string | null = null): string =>
  derive('input', ...of(tenant), text, index);
/** The id of a card that holds the output of a tool outside, which follows from the JSON of the output. */
export const outputCardId = (json: string, tenant: string | null = null): string =>
  derive('output', 'card', ...of(tenant), json);
/** The id of a context box, which follows from its texts. */
export const contextBoxId = (texts: readonly string[], tenant: string | null = null): string =>
  derive('context', ...of(tenant), ...texts);
/** The id of the turn of a request with an idempotency key: the same however often the request is sent (T2). */
export const turnIdForKey = (agentId: string, idempotencyKey: string): string =>
  derive('turn', agentId, idempotencyKey);
/**
 * The id of the turn of a request that came by signal. The digest of the body is part of it, so that after a reset another request in the
 * same place is another turn.
 */
export const turnIdForMessage = (messageId: string, digest: string): string =>
  derive('turn', 'message', messageId, digest);
/** The id of the card with a turn's instruction text. */
export const instructionCardId = (agentTurnId: string): string => derive('instruction', agentTurnId);
/** The id of a card that a step writes; `index` tells cards of the same kind in one step apart. */
export const stepCardId = (agentTurnId: string, stepIndex: number, kind: string, index = 0): string =>
  derive('card', agentTurnId, stepIndex, kind, index);
/** The id of a proposed call, by its place in the model's answer. */
export const callId = (agentTurnId: string, stepIndex: number, index: number): string =>
  derive('call', agentTurnId, stepIndex, index);
/** The id of the card with a call's result. A call has one such card, of the writer that was first (T14). */
export const resultCardId = (agentTurnId: string, call: string): string => derive('result', agentTurnId, call);
/** The id of a summary, which follows from the places in the box that the summary stands for. */
export const summaryCardId = (agentTurnId: string, hide: readonly BoxExtent[]): string =>
  derive('summary', agentTurnId, JSON.stringify(hide.map(({ fromSeq, toSeq }) => [fromSeq, toSeq])));
/** The id of a user's message for a running turn to which its sender gave a key: the same however often the message is sent (T22). */
export const steerIdFor = (agentTurnId: string, key: string): string => derive('steer', agentTurnId, key);
/** The id of the card with which a message of a chat steers a turn, or begins one (C8). */
export const messageCardId = (agentId: string, eventId: string): string => derive('message', agentId, eventId);
/** The id of the card with the messages that a turn has collected, which have these places in their session (C8). */
export const collectedCardId = (agentTurnId: string, seqs: readonly number[]): string =>
  derive('instruction', agentTurnId, ...seqs);
/** The id of the turn that a message becomes which its own turn did not consume (T22). */
export const steerTurnId = (steerId: string): string => derive('steer', steerId);
/** The id of the turn that a delegation call makes. */
export const delegatedTurnId = (call: string): string => derive('delegate', call);
/**
 * The id of the agent that a delegation call makes: it begins with that of its tenant, goes on with the name of its profile, and follows from
 * the call.
 */
export const delegatedAgentId = (profile: string, call: string, tenant: string | null = null): string =>
  agentIdFor(
    tenant,
    `${profile.slice(0, tenant === null ? 100 : 50)}-${derive('agent', call).replaceAll('-', '').slice(0, 12)}`,
  );
/** The id of the copy that is made of a box for another agent or turn, which `subject` names (T25). */
export const forkedBoxId = (boxId: string, subject: string): string => derive('fork', boxId, subject);
/** The id of the card with a turn's deliverable. */
export const deliverableCardId = (agentTurnId: string): string => derive('deliverable', agentTurnId);
/** The id of the box in which an agent remembers its turns. */
export const outputBoxId = (agentId: string): string => derive('output', agentId);
/** The key by which an execution edge is written once; `subject` is the turn or the call that the edge is about (T26). */
export const edgeKey = (primitive: string, phase: string, subject: string): string =>
  derive('edge', primitive, phase, subject);
/** The id of what a call makes of its agent's work: short, because a model repeats it. */
export const workId = (kind: 'work' | 'wait' | 'timer' | 'trigger', call: string): string =>
  `${kind}_${derive(kind, call).replaceAll('-', '').slice(0, 16)}`;
/** The id of the card with what was delivered to an agent; `place` tells deliveries from one source apart. */
export const deliveryCardId = (agentId: string, source: string, place: string): string =>
  derive('delivery', agentId, source, place);
