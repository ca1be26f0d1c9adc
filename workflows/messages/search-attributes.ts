/** Typed keys of our search attributes (see protocol/ids.ts). Each upsert costs one history event. */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { upsertSearchAttributes } from '@temporalio/workflow';
import type { TurnStatus } from '../protocol/turn.ts';

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);

export const AGENT_ID = keyword('AgentId');
export const AGENT_TURN_ID = keyword('AgentTurnId');
export const TURN_STATUS = keyword('TurnStatus');
export const WORKER_TARGET = keyword('WorkerTarget');
export const PROFILE = keyword('Profile');
export const TURN_EPOCH = defineSearchAttributeKey('TurnEpoch', SearchAttributeType.INT);

/** A turn that runs has none: only what the workflow's own status does not say is worth an event. */
export const showTurnStatus = (status: TurnStatus): void =>
  upsertSearchAttributes([{ key: TURN_STATUS, value: status === 'running' ? null : status }]);
