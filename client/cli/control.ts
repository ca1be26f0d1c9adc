/** `turn stop`, `turn steer`, `agents stop`, `agents start` and `agents wake`. */
import type { WakeDisposition } from '../../workflows/contract/agent-work.ts';
import type { StopAck } from '../../workflows/contract/control.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { AgentHandle, SteerOptions } from '../api.ts';
import { commandLine } from '../command-line.ts';
import { noTurn } from '../no-turn.ts';
import { type CliEnvironment, type CommonOptions, connected } from './environment.ts';

/** The options of `turn stop` and `agents stop`. */
export interface StopOptions extends CommonOptions {
  readonly reason?: string;
}

/** What each answer means for the caller (see the protocol's control.ts). */
const STOP_MEANING = {
  stopped: 'the turn has ended as failed/stopped; its agent goes on with the next one',
  canceled: 'the turn was still queued and will not run',
  already_ended: 'the turn had ended before; nothing changed',
} as const;

const BREAK_OFF_MEANING = {
  interrupt: {
    ...STOP_MEANING,
    stopped: 'the turn has ended as failed/stopped; messages that it had not read are the next turn',
  },
  rollback: {
    ...STOP_MEANING,
    stopped: 'the turn has ended, and its agent does not remember it; messages that it had not read are the next turn',
  },
} as const;

const STEER_MEANING = {
  accepted: 'the model reads it before its next call; if the turn ends first, it is the next turn',
  stale: 'the turn has ended; enqueue the message as a request of its own',
} as const;

/** `turn interrupt` and `turn rollback`: end a turn so that its agent goes on with something else. Resolves with the exit code. Errors: `turn_not_found`. */
export const breakOffCommand = (
  environment: CliEnvironment,
  how: 'interrupt' | 'rollback',
  turnId: string,
  options: StopOptions,
): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const ack = await client.turn(turnId)[how](options.reason);
    if (ack.ack === 'unknown') throw noTurn(turnId);
    environment.io.out(options.json ? JSON.stringify(ack) : `${ack.ack}: ${BREAK_OFF_MEANING[how][ack.ack]}`);
    return 0;
  });

/** `turn stop`: ends a turn. Resolves with the exit code. Errors: `turn_not_found`. */
export const stopTurnCommand = (environment: CliEnvironment, turnId: string, options: StopOptions): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const ack = await client.turn(turnId).stop(options.reason);
    if (ack.ack === 'unknown') throw noTurn(turnId);
    environment.io.out(
      options.json ? JSON.stringify(ack) : `${ack.ack}: ${STOP_MEANING[ack.ack]}${unreadText(ack, turnId)}`,
    );
    return 0;
  });

/** What becomes of messages that a stopped turn had not read. */
function unreadText({ droppedSteers: unread }: StopAck, turnId: string): string {
  if (unread === undefined) return '';
  const went = unread === 1 ? '1 message that it had not read went' : `${unread} messages that it had not read went`;
  return `; ${went} with it: ${commandLine(`events --turn ${turnId}`)} shows what was dropped`;
}

/** `turn steer`: sends a message to a running turn. Resolves with the exit code. Errors: `invalid_request`, `turn_not_found`, `inbox_full`, `idempotency_conflict`. */
export async function sendSteer(
  environment: CliEnvironment,
  turnId: string,
  message: string,
  options: SteerOptions & CommonOptions,
): Promise<number> {
  const { io } = environment;
  const text = message === '-' ? await io.readStdin() : message;
  return connected(environment, options, async ({ client }) => {
    const ack = await client.turn(turnId).steer(text, options);
    if (ack.ack === 'unknown') throw noTurn(turnId);
    const place = ack.seq === undefined ? '' : ` (number ${ack.seq} of what came for this turn)`;
    io.out(options.json ? JSON.stringify(ack) : `${ack.ack}${place}: ${STEER_MEANING[ack.ack]}`);
    return ack.ack === 'accepted' ? 0 : 1;
  });
}

/** `agents stop`: makes an agent refuse requests, and ends its active turn. Errors: `invalid_request` for an agent the store does not have. */
export const stopAgent = (environment: CliEnvironment, agentId: string, options: StopOptions): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const { stoppedTurnId } = await (await known(client.agent(agentId))).stop(options.reason);
    const turn = stoppedTurnId === null ? '' : `, its turn ${stoppedTurnId} has ended`;
    const answer = { agentId, lifecycle: 'stopped', stoppedTurnId };
    const text = `${agentId} is stopped${turn}; it refuses requests and keeps what is queued until it is started`;
    environment.io.out(options.json ? JSON.stringify(answer) : text);
    return 0;
  });

/** `agents start`: makes an agent accept requests again. Errors: `invalid_request` for an agent the store does not have. */
export const startAgent = (environment: CliEnvironment, agentId: string, options: CommonOptions): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const agent = client.agent(agentId);
    const before = await agent.get();
    if (!before) throw noAgent(agentId);
    await agent.start();
    const answer = { agentId, lifecycle: 'started' };
    const change = before.lifecycle.acceptsExternalMessages
      ? 'is started already; nothing changed'
      : 'is started; what is queued runs';
    environment.io.out(options.json ? JSON.stringify(answer) : `${agentId} ${change}`);
    return 0;
  });

/** The options of `agents wake`. */
export interface WakeOptions extends CommonOptions {
  readonly key?: string;
}

/** What each answer means for the caller. */
const WAKE_MEANING: Readonly<Record<WakeDisposition, string>> = {
  woken: 'a turn was made of it',
  kept: 'the agent is busy or waits for something else, and gets it with its next turn',
  noted: 'it said nothing; nothing changed',
  duplicate: 'it was said before with this key; nothing changed',
};

/** `agents wake`: makes an agent go on. Resolves with the exit code. Errors: `agent_not_found`, `agent_stopped`, `invalid_request`, `payload_too_large`. */
export async function wakeAgentCommand(
  environment: CliEnvironment,
  agentId: string,
  reason: string,
  options: WakeOptions,
): Promise<number> {
  const { io } = environment;
  const said = reason === '-' ? await io.readStdin() : reason;
  return connected(environment, options, async ({ client }) => {
    const { key } = options;
    const agent = await known(client.agent(agentId));
    const ack = await agent.wake({ reason: said, ...(key === undefined ? {} : { key }) });
    io.out(options.json ? JSON.stringify(ack) : `${ack.disposition}: ${WAKE_MEANING[ack.disposition]}`);
    return 0;
  });
}

/** A mistyped id must not look stopped. Errors: `invalid_request`. */
async function known(agent: AgentHandle): Promise<AgentHandle> {
  if (await agent.get()) return agent;
  throw noAgent(agent.id);
}

/** The error for an agent that the store does not have. */
export const noAgent = (agentId: string): CodedError =>
  new CodedError(
    'agent_not_found',
    `no agent ${JSON.stringify(agentId)} in this store: an agent is there from its first enqueue on; ${commandLine('agents ls')} shows those it has`,
  );
