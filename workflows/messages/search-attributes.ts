/**
 * The search attributes of a turn's workflow as typed keys; `SEARCH_ATTRIBUTES` in protocol/ids.ts names them for those who register them.
 */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { upsertSearchAttributes } from '@temporalio/workflow';
import type { TurnStatus } from '../protocol/turn.ts';

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);

/** The agent whose turn it is; set at the start. */
export const AGENT_ID = keyword('AgentId');
/** The id of the turn; set at the start. */
export const AGENT_TURN_ID = keyword('AgentTurnId');
/** The status of a turn that does not run at the moment; absent while it runs. */
export const TURN_STATUS = keyword('TurnStatus');
/** The name of the profile that the turn has; set at the start. */
export const PROFILE = keyword('Profile');

/**
 * Writes the turn's status where lists of workflows show it, at the price of one history event. A running turn has no value, because the
 * workflow's own status says as much.
 */
export const showTurnStatus = (status: TurnStatus): void =>
  upsertSearchAttributes([{ key: TURN_STATUS, value: status === 'running' ? null : status }]);
