/** `events`: the event log of an agent or a turn, one line each. */
import type { AgentEvent, CallEvent, StateEvent, StepEvent } from '../../workflows/contract/events.ts';
import { noticeText } from '../../workflows/contract/notices.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { type EventRange, followEvents, storedEvents } from '../event-tail.ts';
import { betweenTurnsText } from './between-turns.ts';
import { chatStepText, messageText } from './chat-text.ts';
import { noAgent } from './control.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';
import { duration, time, valueLine } from './format.ts';
import { providerText } from './progress.ts';

/** The options of `events`. */
export interface EventsCommandOptions extends CommonOptions {
  readonly agent?: string;
  readonly turn?: string;
  readonly after?: number;
  readonly follow?: boolean;
}

/** One of `agent` and `turn` is given. */
export async function printEvents(
  { io, openStore, interruption }: CliEnvironment,
  options: EventsCommandOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const filter = await filterOf(store, options);
    const events = options.follow
      ? followEvents(store, { ...filter, signal: interruption() })
      : storedEvents(store, filter);
    let printed = 0;
    for await (const event of events) {
      io.out(options.json ? JSON.stringify(event) : eventLine(event));
      printed += 1;
    }
    // One that is followed may be yet to come.
    if (printed === 0 && !options.follow && !(await store.getAgent(filter.agentId))) throw noAgent(filter.agentId);
    return 0;
  } finally {
    await store.close();
  }
}

/** Errors: `turn_not_found`. */
async function filterOf(store: ClientStore, { agent = '', turn, after }: EventsCommandOptions): Promise<EventRange> {
  if (turn === undefined) return { agentId: agent, afterSeq: after };
  const view = await store.getTurn(turn);
  if (!view) throw new CodedError('turn_not_found', `no turn ${turn} in this store`);
  return { agentId: view.agentId, agentTurnId: turn, afterSeq: after };
}

/** One event as a line for people. */
export function eventLine(event: AgentEvent): string {
  const { seq, createdAt, agentTurnId, type } = event;
  return `${String(seq).padStart(6)}  ${time(createdAt)}  ${agentTurnId ?? '-'}  ${type.padEnd(7)}  ${detailOf(event)}`;
}

function detailOf(event: AgentEvent): string {
  switch (event.type) {
    case 'state':
      return stateText(event.payload);
    case 'step':
      return stepText(event.payload);
    case 'provider':
      return `${event.payload.stepIndex} ${providerText(event.payload)}`;
    case 'call':
      return callText(event.payload);
    case 'approval': {
      const { callId, tool, phase, by, reason } = event.payload;
      const who = by === undefined ? '' : ` by ${by}`;
      return `${tool || 'budget'} ${phase}${who}${reason === undefined ? '' : `: ${reason}`} (${callId})`;
    }
    case 'notice':
      return noticeText(event.payload);
    case 'task': {
      const { status, errorCode, deliverableCardId } = event.payload;
      return `${status}${errorCode === null ? '' : ` (${errorCode})`}, deliverable ${deliverableCardId}`;
    }
    case 'message':
      return messageText(event.payload);
    case 'chat_step':
      return chatStepText(event.payload);
    case 'dropped':
      return `${event.payload.what}: ${event.payload.reason}`;
    case 'work':
    case 'wait':
    case 'wake':
    case 'closure':
    case 'continuation':
      return betweenTurnsText(event);
  }
}

function stateText({ status, turnEpoch, activity, currentTool, ...rest }: StateEvent['payload']): string {
  const { waitingToolCount, resumeDeadline } = rest;
  const doing = [activity, currentTool].filter((part) => part !== undefined).join(' ');
  const until = resumeDeadline === null ? '' : ` until ${time(resumeDeadline)}`;
  return [
    `${status}, epoch ${turnEpoch}`,
    ...(doing === '' ? [] : [doing]),
    ...(waitingToolCount === 0 ? [] : [`${waitingToolCount} waiting${until}`]),
  ].join(', ');
}

function stepText({ stepIndex, phase, tools, errorCode }: StepEvent['payload']): string {
  const called = tools && tools.length > 0 ? `: ${tools.join(', ')}` : '';
  return `${stepIndex} ${phase}${called}${errorCode === undefined ? '' : ` (${errorCode})`}`;
}

function callText(payload: CallEvent['payload']): string {
  const { callId, tool, phase, status, reason, deadline, durationMs, progress } = payload;
  return [
    ...(tool === '' ? [] : [tool]),
    phase,
    ...(progress === undefined ? [] : [valueLine(progress)]),
    ...(status === undefined ? [] : [status]),
    ...(durationMs === undefined ? [] : [`in ${duration(durationMs)}`]),
    ...(deadline === undefined ? [] : [`until ${time(deadline)}`]),
    ...(reason === undefined ? [] : [`as ${reason}`]),
    `(call ${callId})`,
  ].join(' ');
}
