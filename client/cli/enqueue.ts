/** `enqueue` and `run`: one request to an agent, or to a new one of a profile; with `--wait`, its deliverable. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { TurnView } from '../../workflows/contract/views.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import { type EnqueueInput, enqueueRequestSchema, requestedFieldsSchema } from '../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { SIZES, utf8Bytes } from '../../workflows/protocol/sizes.ts';
import type { Priority } from '../../workflows/protocol/turn.ts';
import type { TurnHandle } from '../api.ts';
import type { ClientApi } from '../client-api.ts';
import { commandLine } from '../command-line.ts';
import type { Stall } from '../stalls.ts';
import { answerCommands } from './answers.ts';
import { jsonOf, metadataOf } from './arguments.ts';
import type { CliEnvironment, CliIo, CommonOptions } from './environment.ts';
import { printFailure, turnFailure } from './failure.ts';
import { counted, deliverableText } from './format.ts';
import { type HeldQueue, heldQueue, heldText, type QueueReader } from './held-queue.ts';
import { INTERRUPTED, unlessInterrupted } from './interrupted.ts';
import { stallText } from './stall.ts';
import { watch } from './watch.ts';

/** The options of `enqueue` and `run`; `timeout` is in seconds, `resultFields` is JSON. */
export interface EnqueueOptions extends CommonOptions {
  readonly profile?: string;
  readonly key?: string;
  readonly priority?: Priority;
  readonly resultFields?: string;
  readonly criterion?: readonly string[];
  readonly context?: readonly string[];
  readonly metadata?: readonly string[];
  readonly uiAction?: boolean;
  readonly wait?: boolean;
  readonly timeout?: number;
}

/** Stands for an id that is written only when everything else is known to be valid. */
const PLACEHOLDER_ID = '00000000-0000-4000-8000-000000000000';

/** `enqueue`: sends a request, and waits for the turn's end with `--wait`. Resolves with the exit code: 1 when the turn gave no result, 130 after Ctrl-C. */
export const enqueue = (
  environment: CliEnvironment,
  agentId: string,
  instruction: string,
  options: EnqueueOptions,
): Promise<number> =>
  request(environment, instruction, options, async (client, input) => {
    const agent = client.agent(agentId);
    const known = input.profile === undefined ? null : await agent.get();
    const usual = known?.identity.profile ?? agentId;
    if (known && usual !== input.profile && !options.json)
      environment.io.err(
        `${agentId} runs as ${usual} by default: this turn runs as ${input.profile}, with the same memory`,
      );
    const turn = await agent.enqueue(input);
    return { turn, agentId, behind: turn.ack?.position ? await whatHolds(client, agentId) : null };
  });

/** `run`: one turn of a new agent of that profile, and its end with `--wait`. Resolves with the exit code, as `enqueue` does. */
export const runOnce = (
  environment: CliEnvironment,
  profile: string,
  instruction: string,
  options: EnqueueOptions,
): Promise<number> =>
  request(environment, instruction, options, async (client, input) => {
    const turn = await client.run(profile, input);
    return { turn, agentId: (await turn.get()).agentId, behind: null };
  });

/** A request that was accepted. */
interface Sent {
  readonly turn: TurnHandle;
  readonly agentId: string;
  /** What holds the queue in which the turn waits; null when it waits in none. */
  readonly behind: Behind | null;
}

/** Why a queue does not move; both are null when it does. */
interface Behind {
  readonly held: HeldQueue | null;
  /** Why the open turn of the agent does not go on. */
  readonly stall: Stall | null;
}

async function whatHolds(client: ClientApi, agentId: string): Promise<Behind> {
  const held = await heldQueue(readerOf(client), agentId);
  const active = held ? null : (await client.agent(agentId).get())?.agent.currentTurn?.agentTurnId;
  return { held, stall: active ? await stallOf(client.turn(active)) : null };
}

/** The request is accepted, whatever the server says now: one that does not answer says nothing about the turn. */
const stallOf = (turn: TurnHandle): Promise<Stall | null> => turn.stall({ queuedMs: 0 }).catch(() => null);

const readerOf = (client: ClientApi): QueueReader => ({
  agentSummary: (agentId) => client.agent(agentId).get(),
  listApprovals: (filter) => client.approvals(filter),
});

async function request(
  { io, openClient, interruption }: CliEnvironment,
  instruction: string,
  options: EnqueueOptions,
  send: (client: ClientApi, input: EnqueueInput) => Promise<Sent>,
): Promise<number> {
  const text = instruction === '-' ? await io.readStdin() : instruction;
  const asked = requestOf(options);
  const context = await Promise.all((options.context ?? []).map(readContext));
  const opened = await openClient(options);
  try {
    const { client } = opened;
    const { turn, agentId, behind } = await send(client, await withInput(client, asked, text, context));
    if (options.wait) {
      if (!options.json) io.err(ackLine(turn, agentId));
      if (!options.json) for (const line of behindLines(behind)) io.err(line);
      const watching = options.json ? Promise.resolve() : watch(io, turn);
      // It only watches: when the wait ends early, what is closed under its feet must not count.
      watching.catch(() => {});
      const timeoutMs = (options.timeout ?? Number.POSITIVE_INFINITY) * 1_000;
      const view = await unlessInterrupted(resultOf(turn, timeoutMs), interruption());
      if (view === null) {
        io.err(`turn ${turn.id} goes on without you; to see it again: ${commandLine(`turn show ${turn.id}`)}`);
        return INTERRUPTED;
      }
      await watching;
      return printResult(io, options, view);
    }
    printAck(io, options, turn, agentId, behind, await stallOf(turn));
    return 0;
  } finally {
    await opened.close();
  }
}

function requestOf(options: EnqueueOptions): EnqueueInput {
  const { profile, key, priority, resultFields, criterion, metadata, uiAction } = options;
  return {
    ...(profile === undefined ? {} : { profile }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(priority === undefined ? {} : { priority }),
    ...(resultFields === undefined ? {} : { resultFields: fieldsOf(resultFields) }),
    ...(criterion === undefined ? {} : { criteria: criterion }),
    ...(metadata === undefined ? {} : { metadata: metadataOf(metadata) }),
    ...(uiAction === undefined ? {} : { uiAction }),
  };
}

/** The fields in a text of JSON. Errors: `invalid_request`, which names the option. */
function fieldsOf(text: string): EnqueueInput['resultFields'] {
  const option = '--result-fields';
  const parsed = requestedFieldsSchema.safeParse(jsonOf(option, text));
  if (parsed.success) return parsed.data;
  throw new CodedError('invalid_request', `${option}: ${z.prettifyError(parsed.error)}`);
}

async function readContext(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CodedError('invalid_request', `--context: ${file} cannot be read: ${reason}`);
  }
}

/** Cards are written after the request is known to be valid, so that a refused one leaves nothing behind. */
async function withInput(
  client: ClientApi,
  request: EnqueueInput,
  text: string,
  context: readonly string[],
): Promise<EnqueueInput> {
  const isLong = utf8Bytes(text) > SIZES.instructionBytes;
  const inline = isLong ? { instructionCardId: PLACEHOLDER_ID } : { instruction: text };
  const parsed = enqueueRequestSchema.safeParse({ ...request, ...inline });
  if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
  return {
    ...request,
    ...(isLong ? { instructionCardId: await client.writeInstruction(text) } : inline),
    ...(context.length === 0 ? {} : { contextBoxId: await client.writeContext(context) }),
  };
}

function printAck(
  io: CliIo,
  { json }: EnqueueOptions,
  turn: TurnHandle,
  agentId: string,
  behind: Behind | null,
  stall: Stall | null,
): void {
  if (json) {
    const held = behind?.held ? { held: behind.held } : {};
    io.out(JSON.stringify({ ...turn.ack, ...held, ...(stall ? { stall } : {}) }));
    return;
  }
  for (const line of [ackLine(turn, agentId), ...behindLines(behind)]) io.out(line);
  if (stall) io.out(`stalled: ${stallText(stall)}`);
}

/** The ended turn. An error that says that it goes on says what it waits for, where that is known. */
async function resultOf(turn: TurnHandle, timeoutMs: number): Promise<TurnView> {
  try {
    return await turn.result({ timeoutMs });
  } catch (error) {
    if (!(error instanceof CodedError) || error.code !== 'result_wait_timeout') throw error;
    const stall = await stallOf(turn);
    if (stall) throw new CodedError(error.code, `${error.message}; stalled: ${stallText(stall)}`);
    throw await waitingForAnswer(turn, error);
  }
}

/** An error that says what is waited for, and how that is answered, where somebody outside must answer. */
async function waitingForAnswer(turn: TurnHandle, error: CodedError): Promise<CodedError> {
  const [first] = (await turn.get()).waiting.filter(({ tool }) => !isDelegation(tool));
  if (!first) return error;
  const { kind, tool, callId, approvers } = first;
  const asks = kind === 'approval';
  const waiting = {
    kind: asks ? (tool === '' ? 'budget' : 'approval') : 'result',
    agentTurnId: turn.id,
    callId,
    approvers,
  } as const;
  const [command] = answerCommands(waiting);
  const what = asks ? `approval of ${tool || 'more budget'}` : `the result of ${tool}`;
  return new CodedError(error.code, `${error.message}, once somebody answers: it waits for ${what}`, {
    cure: `Answer it: ${command}`,
  });
}

const behindLines = (behind: Behind | null): string[] => [
  ...(behind?.held ? [`behind ${heldText(behind.held)}`] : []),
  ...(behind?.stall ? [`behind a turn that does not go on: ${stallText(behind.stall)}`] : []),
];

function ackLine({ id, ack }: TurnHandle, agentId: string): string {
  const before = ack?.position ? `, ${counted(ack.position, 'turn')} before it` : '';
  return `turn ${id} of ${agentId}: ${ack?.status}${before}${ack?.duplicate ? ' (accepted before)' : ''}`;
}

/** Returns the exit code: 0 when the turn gave a result. */
function printResult(io: CliIo, options: CommonOptions, view: TurnView): number {
  const failure = turnFailure(view);
  if (options.json) {
    io.out(JSON.stringify(failure ? { ...view, error: failure } : view));
  } else if (failure) {
    if (view.status === 'partial' && view.deliverable) io.out(deliverableText(view.deliverable));
    printFailure(io, failure);
    io.err(`the whole turn: ${commandLine(`turn show ${view.agentTurnId}`)}`);
  } else if (view.deliverable) {
    io.out(deliverableText(view.deliverable));
    if (view.status !== 'success') io.err(`the turn ended ${view.status} (${view.errorCode}): ${view.reason}`);
  }
  return failure ? 1 : 0;
}
