/** What a person sees who waits for a turn: its events as they happen, and why it does not go on while nothing happens. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { TurnHandle } from '../api.ts';
import { answerCommands, type Waiting } from './answers.ts';
import type { CliIo } from './environment.ts';
import { TurnProgress } from './progress.ts';
import { stallText } from './stall.ts';

/** How often a turn that is waited for is asked why it does not go on, ms. */
const ASK_MS = 5_000;

/** Prints what happens until the turn has ended; where no person watches, only what the turn waits for that somebody may have to see to. */
export async function watch(io: CliIo, turn: TurnHandle): Promise<void> {
  const ended = new AbortController();
  const stalls = watchStalls(io, turn, ended.signal);
  // It only watches: what fails in it must not end the process before it is awaited.
  stalls.catch(() => {});
  try {
    const progress = new TurnProgress((await turn.get()).acceptedAt);
    for await (const event of turn.events())
      for (const line of [...progress.lines(event), ...answersTo(event, turn.id)])
        if (io.live || isTrouble(event)) io.err(line);
  } finally {
    ended.abort();
  }
  await stalls;
}

/** Whether a turn that somebody waits for may go on only when a person does something. */
const isTrouble = (event: AgentEvent): boolean =>
  event.type === 'provider' ||
  waitingIn(event) !== null ||
  (event.type === 'state' && event.payload.activity === 'waiting_for_workers');

/** What the event says to wait for an answer from outside; null for any other event. */
function waitingIn(event: AgentEvent): Pick<Waiting, 'kind' | 'callId'> | null {
  if (event.type === 'approval' && event.payload.phase === 'asked')
    return { kind: event.payload.tool === '' ? 'budget' : 'approval', callId: event.payload.callId };
  if (event.type === 'call' && event.payload.phase === 'suspended' && !isDelegation(event.payload.tool))
    return { kind: 'result', callId: event.payload.callId };
  return null;
}

/** The command that answers what the event is about, as a line. */
function answersTo(event: AgentEvent, agentTurnId: string): string[] {
  const waiting = waitingIn(event);
  return (waiting ? answerCommands({ ...waiting, agentTurnId }) : [])
    .slice(0, 1)
    .map((command) => `${' '.repeat(13)}${command}`);
}

/** Says each reason once, and of a provider that fails each attempt; the first one is an event of the turn, and is said with the events. */
async function watchStalls(io: CliIo, turn: TurnHandle, ended: AbortSignal): Promise<void> {
  let said = '';
  for (;;) {
    await sleep(ASK_MS, undefined, { signal: ended }).catch(() => {});
    if (ended.aborted) return;
    const { reason, text } = await currentStall(turn);
    if (ended.aborted) return;
    if (reason !== said && text !== null) io.err(`stalled: ${text}`);
    said = reason;
  }
}

/** Why a turn does not go on. */
export interface SaidStall {
  /** A key that is the same for as long as the reason is; empty while the turn goes on. */
  readonly reason: string;
  /** In words; null for none that is to be said beside what the events of the turn say. */
  readonly text: string | null;
  /** In words, whatever was said before; null while the turn goes on. */
  readonly whole: string | null;
}

/** Asks why the turn does not go on; that it cannot be asked is a reason too. */
export async function currentStall(turn: Pick<TurnHandle, 'stall'>): Promise<SaidStall> {
  try {
    const stall = await turn.stall();
    if (stall === null) return { reason: '', text: null, whole: null };
    const whole = stallText(stall);
    if (stall.kind !== 'provider') return { reason: stall.kind, text: whole, whole };
    return { reason: `provider ${stall.failures}`, text: stall.failures < 2 ? null : whole, whole };
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    return { reason: error.code, text: error.message, whole: error.message };
  }
}
