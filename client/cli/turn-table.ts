/** One turn as a page of text: what was asked, what happened step by step, what waits, what came out. */

import { shownWords } from '../../workflows/chat/rendering.ts';
import { terminalOf } from '../../workflows/chat/terminal.ts';
import type { CallView, StepView, TurnView } from '../../workflows/contract/views.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import { shownTokens } from '../../workflows/protocol/turn.ts';
import { commandLine } from '../command-line.ts';
import { answerCommands } from './answers.ts';
import { deliverableText, duration, indent, shortened, table, time, valueLine } from './format.ts';
import { type HeldQueue, heldReason, heldText } from './held-queue.ts';

const ASKED_CHARACTERS = 500;
const PROGRESS_CHARACTERS = 60;
const ERROR_CHARACTERS = 80;

/**
 * The page of `turn show`, as lines. `held` is what holds the queue of the turn's agent, this turn or one before it; null when nothing does.
 * `stall` is why the turn does not go on, in words; null when it does.
 */
export function turnPage(view: TurnView, held: HeldQueue | null = null, stall: string | null = null): string[] {
  return [
    ...table(headRows(view, held, stall)),
    ...(view.steps.length > 0 ? ['', ...table(stepRows(view))] : []),
    ...(view.waiting.length > 0 ? ['', 'waiting', ...view.waiting.flatMap((call) => waitingLines(view, call))] : []),
    ...(view.deliverable ? ['', 'deliverable', indent(deliverableText(view.deliverable))] : []),
  ];
}

function headRows(view: TurnView, held: HeldQueue | null, stall: string | null): string[][] {
  const {
    agentTurnId,
    agentId,
    profile,
    turnEpoch,
    status,
    errorCode,
    reason,
    cure,
    instruction,
    usage,
    parent,
    depth,
    chat,
  } = view;
  const why = [errorCode === null ? '' : ` (${errorCode})`, reason === null ? '' : `: ${reason}`].join('');
  return [
    ['turn', agentTurnId],
    ['agent', `${agentId}, profile ${profile}, epoch ${turnEpoch ?? '(not leased yet)'}`],
    ['status', `${status}${why}`],
    ...(cure === null || chat !== null ? [] : [['cure', cure]]),
    ...chatRows(view),
    ...(stall === null ? [] : [['stalled', stall]]),
    ...heldRows(view, held),
    ['asked', shortened(chat ? shownWords(instruction) : instruction, ASKED_CHARACTERS)],
    ...(parent === null ? [] : [['asked by', `${parent.agentId}, turn ${parent.agentTurnId}, at depth ${depth}`]]),
    ['times', timesOf(view)],
    [
      'tokens',
      `${shownTokens(usage.input, usage)} in (${usage.cached} cached), ${shownTokens(usage.output, usage)} out`,
    ],
  ];
}

/** The chat of a turn, and what a person who chats is told of an end without success. */
function chatRows(view: TurnView): string[][] {
  const { chat } = view;
  if (chat === null) return [];
  const failure = terminalOf(view)?.failure;
  return [
    ...(failure ? [['ended', `${terminalOf(view)?.status}, ${failure.class}; next: ${failure.nextAction}`]] : []),
    ['chat', `${chat.chatId}, session ${chat.sessionId}`],
  ];
}

function heldRows({ agentTurnId }: TurnView, held: HeldQueue | null): string[][] {
  if (held === null) return [];
  if (held.agentTurnId !== agentTurnId) return [['behind', heldText(held)]];
  return [['held', `waits for ${heldReason(held)}`]];
}

function timesOf({ acceptedAt, leasedAt, startedAt, endedAt }: TurnView): string {
  const since = (label: string, at: number | null) => (at === null ? [] : [`${label} +${duration(at - acceptedAt)}`]);
  return [
    `accepted ${time(acceptedAt)}`,
    ...since('leased', leasedAt),
    ...since('started', startedAt),
    ...since('ended', endedAt),
  ].join(', ');
}

function stepRows(view: TurnView): string[][] {
  const waiting = new Set(view.waiting.map((call) => call.callId));
  return [
    ['STEP', 'MODEL', 'LATENCY', 'TOKENS', 'TOOL', 'STATUS', 'TOOK', 'CALL'],
    ...view.steps.flatMap((step) => rowsOf(step, waiting)),
  ];
}

function rowsOf({ stepIndex, model, latencyMs, usage, calls }: StepView, waiting: ReadonlySet<string>): string[][] {
  const tokens = usage ? `${shownTokens(usage.input, usage)}+${shownTokens(usage.output, usage)}` : '-';
  const step = [String(stepIndex), model ?? '(asking)', latencyMs === null ? '-' : duration(latencyMs), tokens];
  if (calls.length === 0) return [step];
  return calls.map((call, index) => [...(index === 0 ? step : ['', '', '', '']), ...callCells(call, waiting)]);
}

function callCells(call: CallView, waiting: ReadonlySet<string>): string[] {
  const { tool, status, error, durationMs, callId, progress } = call;
  const state = waiting.has(callId) ? 'waiting' : status;
  const shown = progress === null ? state : `${state}: ${shortened(valueLine(progress), PROGRESS_CHARACTERS)}`;
  const took = durationMs === null ? '-' : duration(durationMs);
  const failed = error && `${shown} (${error.code}: ${shortened(error.message, ERROR_CHARACTERS)})`;
  return [tool, failed ?? shown, took, callId];
}

function waitingLines(
  { agentTurnId }: TurnView,
  { callId, kind, tool, deadline, deferred, approvers }: TurnView['waiting'][number],
): readonly string[] {
  if (isDelegation(tool))
    return [`  ${tool} until ${time(deadline)}: ${commandLine(`turn tree ${agentTurnId}`)} shows who answers`];
  const isApproval = kind === 'approval';
  const waiting = { kind: isApproval ? (tool === '' ? 'budget' : 'approval') : 'result' } as const;
  const commands = answerCommands({ ...waiting, agentTurnId, callId, approvers }).map((command) => `    ${command}`);
  if (isApproval)
    return [`  approval of ${tool || 'more budget'} until ${time(deadline)}; answer it with`, ...commands];
  const pending =
    deferred && `    a result was reported whose card is missing; tried again at ${time(deferred.nextRetryAt)}`;
  return [`  ${tool} until ${time(deadline)}; answer it with`, ...commands, ...(pending ? [pending] : [])];
}
