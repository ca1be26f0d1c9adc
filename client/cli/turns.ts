/** `turn show` and `tool-result`. */
import { terminalOf } from '../../workflows/chat/terminal.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { CodedError, type FailureCode } from '../../workflows/protocol/failures.ts';
import type { ToolResultReport } from '../../workflows/protocol/tool-result.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import type { ClientApi } from '../client-api.ts';
import { commandLine } from '../command-line.ts';
import { noTurn } from '../no-turn.ts';
import type { Stall } from '../stalls.ts';
import { everyEntry } from '../transcript-pages.ts';
import { answerCommands } from './answers.ts';
import { jsonOf } from './arguments.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';
import { heldQueue } from './held-queue.ts';
import { stallText } from './stall.ts';
import { entryLines } from './transcript.ts';
import { turnPage } from './turn-table.ts';

/** The options of `turn show`. */
export interface TurnShowOptions extends CommonOptions {
  /** Prints the whole conversation too. */
  readonly full?: boolean;
}

/** `turn show`: one turn as it stands. Resolves with the exit code. Errors: `turn_not_found`. */
export async function printTurn(
  environment: CliEnvironment,
  turnId: string,
  options: TurnShowOptions,
): Promise<number> {
  const { io, openStore } = environment;
  const store = await openStore(options);
  try {
    const view = await store.getTurn(turnId);
    if (!view) throw noTurn(turnId);
    const held = isTerminal(view.status) ? null : await heldQueue(store, view.agentId);
    const { stall, words } = await stallOf(environment, store, view, options);
    const page = options.json
      ? [JSON.stringify({ ...view, held, stall, terminal: terminalOf(view) })]
      : turnPage(view, held, words);
    for (const line of page) io.out(line);
    if (!options.full) return 0;
    if (!options.json) io.out('');
    for await (const entry of everyEntry(store, turnId))
      for (const line of options.json ? [JSON.stringify(entry)] : entryLines(entry)) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}

/** What says that the server of the store cannot be asked. */
const UNASKED: ReadonlySet<FailureCode> = new Set(['temporal_unreachable', 'namespace_not_found', 'store_mismatch']);

/** Why the turn does not go on, also in words; a server that cannot be asked is no reason to show nothing. */
async function stallOf(
  environment: CliEnvironment,
  store: ClientStore,
  { agentTurnId, status }: TurnView,
  options: CommonOptions,
): Promise<{ readonly stall: Stall | null; readonly words: string | null }> {
  if (isTerminal(status) || status === 'queued') return { stall: null, words: null };
  try {
    const stall = await environment.findStall(store, agentTurnId, options);
    return { stall, words: stall && stallText(stall) };
  } catch (error) {
    if (!(error instanceof CodedError) || !UNASKED.has(error.code)) throw error;
    return { stall: null, words: `not known: ${error.message}. ${error.cure}` };
  }
}

/** The options of `tool-result`; `result` is JSON, `card` an id. */
export interface ToolResultOptions extends CommonOptions {
  readonly status?: ToolResultReport['status'];
  readonly result?: string;
  readonly error?: string;
  readonly card?: string;
}

/** What each answer means for the caller; the codes are final (see the protocol's tool-result.ts). */
const MEANING = {
  applied: 'the call has its result and the turn goes on',
  buffered: 'kept for a call that does not wait yet',
  duplicate: 'the call had its result before; nothing changed',
  deferred: 'the card it names is not there yet; tried again for about a minute, then the call fails',
  stale: 'the turn is over; nothing changed',
} as const;

/** `tool-result`: answers a suspended call. Resolves with the exit code, 1 when the result does not count. Errors: `invalid_request`, `turn_not_found`, `call_not_found`. */
export async function reportToolResult(
  { io, openClient }: CliEnvironment,
  turnId: string,
  callId: string,
  options: ToolResultOptions,
): Promise<number> {
  const { error, result, card } = options;
  const report = {
    callId,
    status: options.status ?? (error === undefined ? 'success' : 'failed'),
    ...(result === undefined ? {} : { result: jsonOf('--result', result) }),
    ...(card === undefined ? {} : { toolResultCardId: card }),
    ...(error === undefined ? {} : { error: { code: 'tool_failed', message: error } }),
  };
  // To forget the result is easy, and a call that has succeeded with nothing cannot be answered again.
  if (report.status === 'success' && result === undefined && card === undefined)
    throw new CodedError(
      'invalid_request',
      `say what the result is: --result JSON (null for none), --card ID or --error WHY`,
    );
  const opened = await openClient(options);
  try {
    const { client } = opened;
    const ack = await client.turn(turnId).toolResult(report);
    if (ack.ack === 'unknown') throw await noSuchCall(client, turnId, callId);
    io.out(options.json ? JSON.stringify(ack) : `${ack.ack}: ${MEANING[ack.ack]}`);
    return ack.ack === 'stale' ? 1 : 0;
  } finally {
    await opened.close();
  }
}

/** That there is no such turn or call, or that something else is waited for. */
async function noSuchCall(client: ClientApi, agentTurnId: string, callId: string): Promise<CodedError> {
  const [question] = await client.approvals({ agentTurnId, callId, limit: 1 });
  const kind = question?.kind === 'budget' ? 'budget' : 'approval';
  const [command] = question ? answerCommands({ ...question, kind }) : [];
  if (command !== undefined)
    return new CodedError('call_not_found', `call ${callId} waits for approval and not for a result`, {
      cure: `Answer it with: ${command}`,
    });
  const isThere = await client
    .turn(agentTurnId)
    .get()
    .then(
      () => true,
      () => false,
    );
  if (!isThere) return noTurn(agentTurnId);
  return new CodedError('call_not_found', `turn ${agentTurnId} has no call ${callId} that waits for a result`, {
    cure: `"${commandLine('inbox')}" lists what waits.`,
  });
}
