/** Storing a tool result: one card per call, of the first that comes (T14). The caller holds the agent's head row. */
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { resultCardId } from '../../ids.ts';
import { appendNew, insertCard } from '../cards/cards.ts';
import type { Tx } from '../context.ts';
import { appendEdge, appendEvent } from '../log/events.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import type { MaybeHeld } from '../turns/turns.ts';
import { approvalOf } from './approval-rows.ts';
import { findResult, toSettled } from './call-cards.ts';

/** A result that is to be stored. */
export interface NewResult {
  /** The step that proposed the call. */
  readonly stepIndex: number;
  readonly content: ToolResultContent;
  /** How long the tool ran; absent for a result that no tool of ours brought. */
  readonly durationMs?: number;
  /** The result that the call has, null when it has none; absent where the caller has not looked for it. */
  readonly known?: SettledCall | null;
}

/** The result of a call, and its card. */
export interface StoredResult {
  readonly settled: SettledCall;
  readonly cardId: string;
}

/** A turn that has the box in which its results are kept. */
type Boxed = MaybeHeld<TurnRow & { readonly output_box_id: string }>;

/** Stores the result of a call, unless the call has one: then that one is returned and nothing is written. */
export async function storeResult(tx: Tx, turn: Boxed, result: NewResult): Promise<StoredResult> {
  const { agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const { stepIndex, durationMs } = result;
  const { callId } = result.content;
  const cardId = resultCardId(agentTurnId, callId);
  const present = result.known === undefined ? await findResult(tx, turn, callId) : result.known;
  if (present) return { settled: present, cardId };
  const approval = turn.waited === false ? undefined : await approvalOf(tx, agentTurnId, callId);
  const content = withinLimit(approval ? { ...result.content, approval } : result.content);
  const card = { cardId, type: 'tool.result', content, author: agentId, agentTurnId, stepIndex, callId } as const;
  const tokens = await insertCard(tx, card);
  const seq = await appendNew(tx, { boxId: turn.output_box_id, owner: agentId }, cardId);
  appendEdge(tx, callId, {
    primitive: 'report',
    phase: 'response',
    kind: content.status === 'timeout' ? 'timeout' : 'tool_result',
    target_agent_id: agentId,
    target_agent_turn_id: agentTurnId,
    call_id: callId,
    depth: turn.depth,
    trace_id: turn.trace_id,
  });
  const payload = {
    callId,
    tool: content.tool,
    phase: 'settled',
    status: content.status,
    cardId,
    ...(durationMs === undefined ? {} : { durationMs }),
  } as const;
  appendEvent(tx, turn, { type: 'call', payload });
  return { settled: toSettled(content, seq, tokens), cardId };
}

/** An oversized result becomes a failed one that says so, instead of an error that retries for ever (T4). */
function withinLimit(result: ToolResultContent): ToolResultContent {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  if (bytes <= SIZES.cardBytes) return result;
  const { callId, tool } = result;
  const message = `the result of ${tool} has ${bytes} bytes, at most ${SIZES.cardBytes} are kept; ask for a smaller part`;
  return { callId, tool, status: 'failed', afterExecution: 'continue', error: { code: 'result_too_large', message } };
}
