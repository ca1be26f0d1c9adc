/** Storing a tool result: one card per call, whoever comes first (T14). The caller holds the agent's head row. */
import type { SettledCall } from '../../../workflows/kernel/state.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { resultCardId } from '../../ids.ts';
import { appendNew, insertCard } from '../cards/cards.ts';
import type { Trx } from '../context.ts';
import { appendEdge, appendEvent } from '../log/events.ts';
import type { MaybeHeld } from '../turns/turns.ts';
import { approvalOf } from './approval-rows.ts';
import { findResult, toSettled } from './call-cards.ts';
/** `fresh` is false when the call already had its result, which is `known` where it was looked for: it is returned and nothing is written. */
export async function storeResult(
  trx: Trx,
  turn: MaybeHeld,
  stepIndex: number,
  result: ToolResultContent,
  now: number,
  durationMs?: number,
  known?: SettledCall | null,
): Promise<{ settled: SettledCall; fresh: boolean; cardId: string }> {
  const { agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const { callId } = result;
  const cardId = resultCardId(agentTurnId, callId);
  const present = known === undefined ? await findResult(trx, turn, callId) : known;
  if (present) return { settled: present, fresh: false, cardId };
  const approval = turn.waited === false ? undefined : await approvalOf(trx, agentTurnId, callId);
  const content = withinLimit(approval ? { ...result, approval } : result);
  const tokens = await insertCard(
    trx,
    { cardId, type: 'tool.result', content, author: agentId, agentTurnId, stepIndex, callId },
    now,
  );
  const seq = await appendNew(trx, turn.output_box_id ?? '', cardId, agentId);
  const edge = {
    primitive: 'report',
    phase: 'response',
    kind: content.status === 'timeout' ? 'timeout' : 'tool_result',
  } as const;
  const target = { target_agent_id: agentId, target_agent_turn_id: agentTurnId, call_id: callId };
  appendEdge(trx, callId, { ...edge, ...target, depth: turn.depth, trace_id: turn.trace_id }, now);
  const payload = {
    callId,
    tool: content.tool,
    phase: 'settled',
    status: content.status,
    cardId,
    ...(durationMs === undefined ? {} : { durationMs }),
  } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'call', payload }, now);
  return { settled: toSettled(content, seq, tokens), fresh: true, cardId };
}

/** An oversized result becomes a failed one that says so, instead of an error that retries for ever (T4). */
function withinLimit(result: ToolResultContent): ToolResultContent {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  if (bytes <= SIZES.cardBytes) return result;
  const { callId, tool } = result;
  const message = `the result of ${tool} has ${bytes} bytes, at most ${SIZES.cardBytes} are kept; ask for a smaller part`;
  return { callId, tool, status: 'failed', afterExecution: 'continue', error: { code: 'result_too_large', message } };
}
