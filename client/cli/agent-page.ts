/** One agent as a page of text: what it is at and why, its work, what it waits for, its last turns. */
import type { AgentPosture } from '../../workflows/agent-state/posture.ts';
import { shownWords } from '../../workflows/chat/rendering.ts';
import type { AgentSummary } from '../../workflows/contract/agent-summary.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { shownTokens } from '../../workflows/protocol/turn.ts';
import { childRows, timerRows, triggerRows, waitRows, workItemRows } from './agent-tables.ts';
import { counted, duration, shortened, table, time } from './format.ts';
import { type HeldQueue, heldText } from './held-queue.ts';

const ASKED_CHARACTERS = 60;

/** The page of `agents get`, as lines. `held` is what holds its queue; null when nothing does. */
export function agentPage(summary: AgentSummary, turns: readonly TurnView[], held: HeldQueue | null): string[] {
  const { activeChildren, activeWaits, activeTimers, activeExternalTriggers, workItems } = summary;
  const part = (items: readonly unknown[], rows: readonly (readonly string[])[]) =>
    items.length === 0 ? [] : ['', ...table(rows)];
  return [
    ...table(headRows(summary, held)),
    ...part(workItems, workItemRows(workItems)),
    ...part(activeWaits, waitRows(activeWaits)),
    ...part(activeTimers, timerRows(activeTimers)),
    ...part(activeExternalTriggers, triggerRows(activeExternalTriggers)),
    ...part(activeChildren, childRows(activeChildren)),
    ...part(turns, turnRows(turns)),
  ];
}

function headRows(summary: AgentSummary, held: HeldQueue | null): string[][] {
  const { identity, agent, schedulingPosture, lifecycle, model, updatedAt } = summary;
  const { waitingForWorkers, turnEpoch } = agent.head;
  const { usage, cost } = model;
  const workers = waitingForWorkers === null ? '' : `, waiting for workers of ${waitingForWorkers.workerTarget}`;
  return [
    ['agent', `${identity.agentId}, profile ${identity.profile}, epoch ${turnEpoch}`],
    ...(identity.parentAgentId === null ? [] : [['child of', identity.parentAgentId]]),
    ['posture', postureText(schedulingPosture)],
    ['status', `${agent.status}${workers}`],
    ...closureRows(summary),
    ...(lifecycle.operatorHint === null ? [] : [['hint', lifecycle.operatorHint]]),
    ['active', agent.currentTurn === null ? '-' : `${agent.currentTurn.agentTurnId}, ${agent.currentTurn.status}`],
    ['waiting', waitingText(agent.head)],
    ...(held === null ? [] : [['held', heldText(held)]]),
    ['turns', turnsText(agent)],
    [
      'tokens',
      `${shownTokens(usage.input, usage)} in (${usage.cached} cached), ${shownTokens(usage.output, usage)} out`,
    ],
    ['cost', cost === null ? 'not known' : cost.toFixed(4)],
    ['changed', `${time(updatedAt)}, made ${time(identity.createdAt)}`],
  ];
}

/** A posture, why, and the ids behind it. */
export function postureText({ posture, reason, agentTurnId, workItemId, waitId, taskId }: AgentPosture): string {
  const behind = Object.entries({ turn: agentTurnId, 'work item': workItemId, wait: waitId, task: taskId })
    .flatMap(([name, id]) => (id === undefined ? [] : [`${name} ${id}`]))
    .join(', ');
  return `${posture}: ${reason}${behind === '' ? '' : ` (${behind})`}`;
}

function closureRows({ closure }: AgentSummary): string[][] {
  if (closure === null) return [];
  const { outcome, waitingReason, evidence } = closure;
  return [['closure', `${outcome}${waitingReason === undefined ? '' : `, ${waitingReason}`}: ${evidence.join('; ')}`]];
}

function waitingText({ waitingToolCount, resumeDeadline }: AgentSummary['agent']['head']): string {
  if (waitingToolCount === 0) return 'no calls';
  return `${counted(waitingToolCount, 'call')}${resumeDeadline === null ? '' : ` until ${time(resumeDeadline)}`}`;
}

const turnsText = ({ turnIndex, pending, autonomousTurns, came }: AgentSummary['agent']): string =>
  [
    `${turnIndex} accepted`,
    `${pending} queued`,
    ...(autonomousTurns === 0 ? [] : [`${autonomousTurns} by itself since something came from outside`]),
    ...(came === 0 ? [] : [`${came} kept for its next one`]),
  ].join(', ');

const turnRows = (turns: readonly TurnView[]): string[][] => [
  ['TURN', 'STATUS', 'EPOCH', 'STEPS', 'ACCEPTED', 'TOOK', 'ASKED'],
  ...turns.map((turn) => [
    turn.agentTurnId,
    turn.errorCode === null ? turn.status : `${turn.status} (${turn.errorCode})`,
    turn.turnEpoch === null ? '-' : String(turn.turnEpoch),
    String(turn.stepCount),
    time(turn.acceptedAt),
    turn.endedAt === null ? '-' : duration(turn.endedAt - (turn.leasedAt ?? turn.acceptedAt)),
    shortened(shownWords(turn.instruction), ASKED_CHARACTERS),
  ]),
];
