/** Deterministic ids: a retry of the same write makes the same row (T29). */
import { v5 } from 'uuid';
import type { BoxExtent } from '../workflows/kernel/handles.ts';

const NAMESPACE = '5b9f0b52-8c5e-4f0e-9d0f-0f6d0f8b7a11';

const derive = (...parts: readonly (string | number)[]): string => v5(JSON.stringify(parts), NAMESPACE);

/** Input is addressed by its content: writing it again, for a retry with the same idempotency key, gives the same id. */
export const inputCardId = (text: string, index = 0): string => derive('input', text, index);
export const outputCardId = (json: string): string => derive('output', 'card', json);
export const contextBoxId = (texts: readonly string[]): string => derive('context', ...texts);
export const turnIdForKey = (agentId: string, idempotencyKey: string): string =>
  derive('turn', agentId, idempotencyKey);
export const turnIdForMessage = (messageId: string, digest: string): string =>
  derive('turn', 'message', messageId, digest);
export const instructionCardId = (agentTurnId: string): string => derive('instruction', agentTurnId);
export const stepCardId = (agentTurnId: string, stepIndex: number, kind: string, index = 0): string =>
  derive('card', agentTurnId, stepIndex, kind, index);
export const callId = (agentTurnId: string, stepIndex: number, index: number): string =>
  derive('call', agentTurnId, stepIndex, index);
export const resultCardId = (agentTurnId: string, call: string): string => derive('result', agentTurnId, call);
export const summaryCardId = (agentTurnId: string, hide: readonly BoxExtent[]): string =>
  derive('summary', agentTurnId, JSON.stringify(hide.map(({ fromSeq, toSeq }) => [fromSeq, toSeq])));
/** Of a message that its sender gave a key: the same however often it is sent. */
export const steerIdFor = (agentTurnId: string, key: string): string => derive('steer', agentTurnId, key);
export const steerTurnId = (steerId: string): string => derive('steer', steerId);
export const delegatedTurnId = (call: string): string => derive('delegate', call);
/** Names the agent after its profile; `call` makes it one of its own. */
export const delegatedAgentId = (profile: string, call: string): string =>
  `${profile.slice(0, 100)}-${derive('agent', call).replaceAll('-', '').slice(0, 12)}`;
export const forkedBoxId = (boxId: string, subject: string): string => derive('fork', boxId, subject);
export const deliverableCardId = (agentTurnId: string): string => derive('deliverable', agentTurnId);
export const outputBoxId = (agentId: string): string => derive('output', agentId);
export const edgeKey = (primitive: string, phase: string, subject: string): string =>
  derive('edge', primitive, phase, subject);
