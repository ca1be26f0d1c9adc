/** A chat without a person at a terminal: standard input is one message, and its answer is all that goes to standard output. */
import type { QueuePolicy } from '../../../workflows/protocol/chat.ts';
import type { ChatHandle, SentMessage } from '../../chat/api.ts';
import type { ClientApi } from '../../client-api.ts';
import { commandLine } from '../../command-line.ts';
import { withoutTrailing } from '../../trailing.ts';
import type { CliIo } from '../environment.ts';
import { UsageError } from '../failure.ts';
import { deliverableText } from '../format.ts';
import { INTERRUPTED, unlessInterrupted } from '../interrupted.ts';
import { watch } from '../watch.ts';
import { cursorToBegin } from './beginning.ts';
import { failureLines } from './endings.ts';

/** A message that comes from standard input. */
export interface PipedSetting {
  readonly io: CliIo;
  readonly client: ClientApi;
  readonly chat: ChatHandle;
  readonly me: string;
  readonly policy: QueuePolicy | undefined;
  /** Whether each part of the session is printed as a line of JSON. */
  readonly json: boolean;
  /** Fires when the process is told to end. */
  readonly interruption: () => AbortSignal;
}

/** Sends what standard input has, and waits for the end of its turn. Resolves with the exit code: 1 unless it has completed, 130 after Ctrl-C. Errors: `invalid_request` for an empty input, `agent_busy`, those of `ChatHandle.send`. */
export async function chatOnce(setting: PipedSetting): Promise<number> {
  const { io, client, chat, me, policy, json } = setting;
  const text = withoutTrailing(await io.readStdin(), '\n');
  if (text.trim() === '')
    throw new UsageError('invalid_request', 'standard input is empty, and nothing was sent', {
      cure: `Pipe a message into it, as in: echo hello | ${commandLine('chat AGENT')}; at a terminal it is a conversation.`,
    });
  const cursor = json ? await cursorToBegin(client, chat, 0) : '';
  const sent = await chat.send(text, { sender: me, ...(policy === undefined ? {} : { policy }) });
  const ended = json ? printedParts(setting, sent, cursor) : printedAnswer(setting, sent);
  const code = await unlessInterrupted(ended, setting.interruption());
  if (code !== null) return code;
  if (sent.turn)
    io.err(`turn ${sent.turn.id} goes on without you; to see it: ${commandLine(`turn show ${sent.turn.id}`)}`);
  return INTERRUPTED;
}

async function printedAnswer({ io }: PipedSetting, sent: SentMessage): Promise<number> {
  // What it waits for that somebody may have to see to; how it goes is nobody's business who wants the answer alone.
  const watching = sent.turn ? watch({ ...io, live: false }, sent.turn) : Promise.resolve();
  watching.catch(() => {});
  const terminal = await sent.terminal();
  await watching;
  const { status, deliverable } = terminal;
  if (deliverable && deliverable.fallback === undefined) io.out(deliverableText(deliverable));
  for (const line of failureLines(terminal)) io.err(line);
  if (status !== 'completed') io.err(`the whole turn: ${commandLine(`turn show ${terminal.turnId}`)}`);
  return status === 'completed' ? 0 : 1;
}

/** The parts from the message on, up to the end of the turn that it comes to be in, and then its terminal. */
async function printedParts({ io, chat }: PipedSetting, sent: SentMessage, cursor: string): Promise<number> {
  const { eventId, seq } = sent.message;
  let hasCome = false;
  for await (const part of chat.stream({ cursor })) {
    hasCome ||= part.type === 'message' && part.eventId === eventId;
    if (hasCome) io.out(JSON.stringify(part));
    if (sent.turn === null && hasCome) break;
    if (part.type !== 'end') continue;
    const [message] = await chat.messages({ after: seq - 1, limit: 1 });
    if (message?.agentTurnId === part.agentTurnId) break;
  }
  const terminal = await sent.terminal();
  io.out(JSON.stringify({ type: 'terminal', ...terminal }));
  return terminal.status === 'completed' ? 0 : 1;
}
