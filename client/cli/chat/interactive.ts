/**
 * A chat with a person at a terminal: what is typed goes out, what comes is printed, and both at once (C11).
 *
 * Invariants
 * 1. What was typed is sent in its order, and once, however often it must be tried; the person can do anything else meanwhile.
 * 2. Ctrl-C ends the turn at work; where none is, or one was told to end just now, the person leaves. A turn that goes on is named then.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 } from 'uuid';
import type { QueuePolicy } from '../../../workflows/protocol/chat.ts';
import { CodedError, FAILURES, isFailureCode } from '../../../workflows/protocol/failures.ts';
import type { ChatHandle } from '../../chat/api.ts';
import type { ClientApi } from '../../client-api.ts';
import { commandLine } from '../../command-line.ts';
import type { PersonTerminal } from '../environment.ts';
import { shownFailure } from '../failure.ts';
import { counted } from '../format.ts';
import { INTERRUPTED } from '../interrupted.ts';
import { currentStall } from '../watch.ts';
import { cursorToBegin } from './beginning.ts';
import { PartPrinter } from './part-printer.ts';
import { Questions } from './questions.ts';
import { ChatScreen } from './screen.ts';
import { agentLines, costFacts, type Fact, queueLines, statusFacts } from './session-facts.ts';
import { completedLine, policyNamed, SLASH_COMMANDS, type SlashName, typedLine } from './slash-commands.ts';
import { WaitingMessages } from './waiting-messages.ts';

/** A chat at a terminal. */
export interface ChatSetting {
  readonly client: ClientApi;
  readonly chat: ChatHandle;
  readonly terminal: PersonTerminal;
  /** With whom, as the person has named it. */
  readonly of: string;
  /** Who types. */
  readonly me: string;
  /** What becomes of messages that are typed while a turn is at work; undefined: as the profile says. */
  readonly policy: QueuePolicy | undefined;
  /** The agents that apps have registered. */
  readonly profiles: readonly string[];
  /** Fires when the process is told to end. */
  readonly interruption: AbortSignal;
}

const RETRY_MS = 1_000;
/** How often a turn at work is asked whether it goes on. */
const ASK_MS = 3_000;
/** Within this time a second Ctrl-C leaves, whatever runs by then. */
const TWICE_MS = 2_000;
const HISTORY = 100;

/** Chats until the person leaves. Resolves with the exit code. Errors: those of the client, before the chat has begun. */
export async function chatInteractively(setting: ChatSetting): Promise<number> {
  const { chat, me } = setting;
  const [session, messages] = await Promise.all([chat.get(), chat.messages({ last: HISTORY })]);
  const cursor = await cursorToBegin(setting.client, chat, 1);
  const mine = messages.filter(({ sender }) => sender.agentId === me).map(({ payload }) => payload.text);
  const talk = new TerminalChat(setting, mine.reverse());
  return talk.run(cursor, session?.lastSeq ?? 0);
}

/** What keeps something from going on, for now. */
const OUTAGES: readonly string[] = ['temporal_unreachable', 'gateway_unreachable', 'store_unavailable'];

const isOutage = (error: unknown): error is CodedError => error instanceof CodedError && OUTAGES.includes(error.code);

/** What a person can do about an outage; null for any other reason. */
function outageText(reason: string): string | null {
  if (!isFailureCode(reason) || !OUTAGES.includes(reason)) return null;
  const { message, cure } = FAILURES[reason];
  return `${message} ${cure}`;
}

class TerminalChat {
  readonly #setting: ChatSetting;
  readonly #screen: ChatScreen;
  readonly #waiting = new WaitingMessages();
  readonly #questions: Questions;
  readonly #printer: PartPrinter;
  readonly #left = Promise.withResolvers<number>();
  readonly #stopped = new AbortController();
  /** By what it keeps from going on: why, as it was said last. */
  readonly #troubles = new Map<string, string>();
  #policy: QueuePolicy | undefined;
  /** What is typed is sent one after the other, and so are commands and answers. */
  #sending: Promise<void> = Promise.resolve();
  #doing: Promise<void> = Promise.resolve();
  #stopAsked: { readonly turn: string; readonly at: number } | null = null;

  constructor(setting: ChatSetting, history: readonly string[]) {
    const { client, chat, me, terminal, policy } = setting;
    this.#setting = setting;
    this.#policy = policy;
    const screen = new ChatScreen(
      terminal,
      {
        line: (text) => this.#typed(text),
        interrupt: (typed) => this.#interrupted(typed),
        end: () => this.#left.resolve(0),
        complete: completedLine,
      },
      history,
    );
    this.#screen = screen;
    this.#questions = new Questions({ client, screen, me, changed: () => this.#ask() });
    const { waiting, questions } = { waiting: this.#waiting, questions: this.#questions };
    this.#printer = new PartPrinter({ client, chat, screen, me, waiting, questions });
  }

  async run(cursor: string, messages: number): Promise<number> {
    const { chat, of, me, interruption } = this.#setting;
    const onSignal = () => this.#left.resolve(INTERRUPTED);
    interruption.addEventListener('abort', onSignal, { once: true });
    const before = messages === 0 ? 'a new chat' : `${counted(messages, 'message')} so far`;
    this.#screen.print(`${of}, chat ${chat.chatId}, as ${me}: ${before}`, { style: 'bold' });
    this.#screen.print('/help lists the commands. Ctrl-C stops a turn, Ctrl-D leaves.', { style: 'dim' });
    this.#ask();
    const running = [this.#follow(cursor), this.#watch()].map((each) => each.catch((error) => this.#broken(error)));
    try {
      return await this.#left.promise;
    } finally {
      interruption.removeEventListener('abort', onSignal);
      this.#stopped.abort();
      this.#sayGoodbye();
      this.#screen.close();
      await Promise.allSettled(running);
    }
  }

  /** The turn at work, or the one that will be next; null when there is none. */
  #running(): string | null {
    return this.#printer.turn ?? this.#waiting.firstTurn;
  }

  #ask(): void {
    this.#screen.ask(this.#questions.prompt ?? `${this.#setting.me}> `);
  }

  #note(text: string): void {
    this.#screen.print(text, { head: '  ', style: 'dim' });
  }

  #failed(error: unknown): void {
    const { code, message, cure } = shownFailure(error);
    this.#screen.print(`[${code}] ${message}`, { head: '✗ ', style: 'red' });
    if (cure !== undefined) this.#screen.print(cure, { head: '  ' });
  }

  /** What cannot go on at all. */
  #broken(error: unknown): void {
    if (this.#stopped.signal.aborted) return;
    this.#failed(error);
    this.#left.resolve(1);
  }

  /** Says once why something waits, and once that it goes on; null: it goes on. */
  #trouble(of: string, reason: string | null, words: string | null = reason): void {
    const before = this.#troubles.get(of);
    if (reason === null) this.#troubles.delete(of);
    else this.#troubles.set(of, reason);
    if (reason === null && before !== undefined) this.#note('goes on');
    const text = reason === null ? null : (outageText(reason) ?? words);
    if (reason !== before && text !== null) this.#screen.print(`waits: ${text}`, { head: '  ', style: 'yellow' });
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopped.signal }).catch(() => {});
  }

  async #follow(begin: string): Promise<void> {
    const { signal } = this.#stopped;
    let cursor = begin;
    while (!signal.aborted) {
      try {
        for await (const part of this.#setting.chat.stream({ cursor, signal })) {
          await this.#printer.print(part);
          cursor = part.cursor;
          this.#trouble('stream', null);
        }
      } catch (error) {
        if (!isOutage(error)) throw error;
        this.#trouble('stream', error.code);
        await this.#pause(RETRY_MS);
      }
    }
  }

  /** Why the turn at work does not go on, and what is asked by agents that work for it. */
  async #watch(): Promise<void> {
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      await this.#pause(ASK_MS);
      const turn = this.#running();
      if (signal.aborted || turn === null) {
        this.#troubles.delete('turn');
        continue;
      }
      try {
        const { reason, text } = await currentStall(this.#setting.client.turn(turn));
        if (this.#running() !== turn) continue;
        this.#trouble('turn', reason === '' ? null : reason, text);
        if (this.#printer.turn === turn) await this.#questions.find(turn);
      } catch (error) {
        if (!isOutage(error)) throw error;
      }
    }
  }

  #typed(line: string): void {
    const typed = typedLine(line);
    if (typed.kind === 'message') {
      if (this.#questions.first === undefined) this.#send(typed.text, this.#policy);
      else this.#do(() => this.#answer(typed.text));
    } else if (typed.kind === 'command') this.#do(() => this.#command(typed.name, typed.rest));
    else {
      const meant = typed.meant === undefined ? '/help lists them.' : `did you mean ${typed.meant}?`;
      this.#note(`there is no command ${typed.word}: ${meant} A message that begins with / is typed with //.`);
    }
  }

  /** What is no answer to the question is a message like any other. */
  async #answer(text: string): Promise<void> {
    if (!(await this.#questions.take(text))) this.#send(text, this.#policy);
  }

  #do(body: () => Promise<void>): void {
    this.#doing = this.#doing.then(body).catch((error) => this.#failed(error));
  }

  #send(text: string, policy: QueuePolicy | undefined): void {
    const eventId = v7();
    const isFirst = this.#running() === null && this.#waiting.isEmpty;
    this.#waiting.send(eventId, this.#setting.me, text);
    const line = isFirst ? this.#waiting.take(eventId) : null;
    if (line) this.#printer.say(line);
    this.#printer.showWaiting();
    this.#sending = this.#sending.then(() => this.#deliver(eventId, text, policy));
  }

  async #deliver(key: string, text: string, policy: QueuePolicy | undefined): Promise<void> {
    const { chat, me } = this.#setting;
    while (!this.#stopped.signal.aborted) {
      try {
        const { message, turn } = await chat.send(text, {
          key,
          sender: me,
          ...(policy === undefined ? {} : { policy }),
        });
        if (message.status !== 'rejected') this.#waiting.update(message);
        this.#trouble('send', null);
        if (turn && message.status === 'processing') this.#printer.expect(turn.id);
        else this.#printer.showWaiting();
        return;
      } catch (error) {
        if (!isOutage(error)) return this.#refused(key, error);
        this.#trouble('send', error.code);
        if (await this.#isTaken(key)) return;
        await this.#pause(RETRY_MS);
      }
    }
  }

  #refused(key: string, error: unknown): void {
    this.#waiting.take(key);
    this.#failed(error);
    this.#printer.showWaiting();
  }

  /** What is in the store is not sent again, though nobody could be told of it: the supervisor sees to its turn. */
  async #isTaken(key: string): Promise<boolean> {
    const messages = await this.#setting.chat.messages({ last: HISTORY }).catch(() => []);
    const taken = messages.find(({ eventId }) => eventId === key);
    if (!taken) return false;
    this.#waiting.update(taken);
    if (taken.status === 'processing' && taken.agentTurnId !== null) this.#printer.expect(taken.agentTurnId);
    // It is the turn that waits now.
    this.#troubles.set('turn', this.#troubles.get('send') ?? '');
    this.#troubles.delete('send');
    return true;
  }

  async #command(name: SlashName, rest: string): Promise<void> {
    const { client, chat, profiles } = this.#setting;
    const turn = this.#printer.lastTurn;
    switch (name) {
      case '/stop':
        return this.#stop(this.#running());
      case '/steer':
        if (rest === '') return this.#note('say what the running turn is to be told: /steer TEXT');
        if (this.#running() === null) this.#note('no turn is at work: it makes one');
        return this.#send(rest, 'steer');
      case '/queue':
        if (rest !== '') this.#setPolicy(rest);
        return this.#lines(await queueLines({ chat }, this.#policy));
      case '/status':
        return this.#facts(await statusFacts({ client, chat, turn }));
      case '/cost':
        return this.#facts(await costFacts({ client, chat, turn }));
      case '/agents':
        return this.#lines(await agentLines(client, profiles));
      case '/help':
        return this.#facts(Object.entries(SLASH_COMMANDS));
      case '/quit':
        return this.#left.resolve(0);
      default:
        return name satisfies never;
    }
  }

  #lines(lines: readonly string[]): void {
    this.#screen.print('');
    for (const line of lines) this.#screen.print(line, { head: '  ' });
  }

  #facts(facts: readonly Fact[]): void {
    const width = Math.max(...facts.map(([about]) => about.length));
    this.#screen.print('');
    for (const [about, text] of facts) this.#screen.print(text, { head: `  ${about.padEnd(width)}  ` });
  }

  #setPolicy(word: string): void {
    const policy = policyNamed(word);
    if (policy === undefined) this.#note(`there is no policy ${word}: collect, steer, interrupt, reject, rollback`);
    else this.#policy = policy;
  }

  #interrupted(typed: boolean): void {
    const turn = this.#running();
    const asked = this.#stopAsked;
    const isAgain = asked !== null && (asked.turn === turn || Date.now() - asked.at < TWICE_MS);
    if (turn !== null && !isAgain) this.#do(() => this.#stop(turn));
    else if (turn === null && typed) this.#screen.clearLine();
    else this.#left.resolve(0);
  }

  async #stop(turn: string | null): Promise<void> {
    if (turn === null) return this.#note('no turn is at work');
    this.#stopAsked = { turn, at: Date.now() };
    this.#note('stops the turn; Ctrl-C again leaves');
    const { ack, droppedSteers } = await this.#setting.client
      .turn(turn)
      .stop(`stopped by ${this.#setting.me} in the chat`);
    if (ack === 'already_ended') this.#note('it had ended before');
    if (droppedSteers !== undefined)
      this.#note(`${counted(droppedSteers, 'message')} that it had not read went with it`);
  }

  #sayGoodbye(): void {
    const { of, chat } = this.#setting;
    const turn = this.#running();
    const { unsent } = this.#waiting;
    const again = commandLine(`chat ${of}${chat.chatId === 'default' ? '' : ` --chat ${chat.chatId}`}`);
    if (unsent > 0) this.#note(`${counted(unsent, 'message')} may not have been taken`);
    if (turn !== null) this.#screen.print(`turn ${turn} goes on without you; to see it again: ${again}`);
  }
}
