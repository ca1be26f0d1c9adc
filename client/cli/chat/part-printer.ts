/**
 * The stream of a session on the terminal: answers as they are written, calls and their results, questions, ends.
 *
 * Invariants
 * 1. A message stands before what its turn answers, and what is written of one turn is not mixed with that of another.
 * 2. Text that was printed stays: where the model begins anew, that is said.
 */
import type { MessageView } from '../../../workflows/contract/chat.ts';
import type { CallView, TurnView } from '../../../workflows/contract/views.ts';
import { isDelegation } from '../../../workflows/protocol/builtins.ts';
import type { ChatHandle, SessionPart } from '../../chat/api.ts';
import type { ClientApi } from '../../client-api.ts';
import type { StreamedCall } from '../../stream-parts.ts';
import { answerCommands } from '../answers.ts';
import { deliverableText, duration, time, valueLine } from '../format.ts';
import { providerText } from '../progress.ts';
import { effortText, turnFailureLines } from './endings.ts';
import type { Questions } from './questions.ts';
import type { ChatScreen, LiveRow, RowStyle } from './screen.ts';
import { clipped, roughly } from './text.ts';
import type { ChatLine, WaitingMessages } from './waiting-messages.ts';

/** What the stream is printed with. */
export interface PrinterSetting {
  readonly client: Pick<ClientApi, 'turn'>;
  readonly chat: ChatHandle;
  readonly screen: ChatScreen;
  readonly waiting: WaitingMessages;
  readonly questions: Questions;
  /** Who reads. */
  readonly me: string;
}

type PartOf<T extends SessionPart['type']> = Extract<SessionPart, { type: T }>;

/** How wide the arguments of a call may be. */
const ARGUMENTS = 60;

/** A call that has no result yet. */
interface OpenCall extends StreamedCall {
  readonly says: string;
}

/** Prints one session, part by part. */
export class PartPrinter {
  readonly #setting: PrinterSetting;
  /** The turn that is shown; null before the first, and between two. */
  #turn: string | null = null;
  /** The turn that was shown last. */
  #last: string | null = null;
  /** The turn that was made by a message which is shown already, and of which nothing has come yet. */
  #expected: string | null = null;
  #step = 0;
  /** What the step says, as far as it is known. */
  #text = '';
  /** Whether there is text right above, with which an answer goes on. */
  #isOpen = false;
  #doing: string | null = null;
  readonly #calls = new Map<string, OpenCall>();

  constructor(setting: PrinterSetting) {
    this.#setting = setting;
  }

  /** The turn that is at work, or will be at once; null when none is. */
  get turn(): string | null {
    return this.#turn ?? this.#expected;
  }

  /** The turn that is at work, else the one that was last. */
  get lastTurn(): string | null {
    return this.turn ?? this.#last;
  }

  /** A turn was made of a message that is shown already. */
  expect(agentTurnId: string): void {
    if (this.#turn === null && this.#last !== agentTurnId) this.#expected = agentTurnId;
    this.showWaiting();
  }

  /** Prints the part. Errors: those of the client. */
  async print(part: SessionPart): Promise<void> {
    if (part.type === 'message') await this.#message(part);
    else {
      if (part.agentTurnId !== this.#turn) this.#begin(part.agentTurnId);
      if ('stepIndex' in part && part.stepIndex !== this.#step) this.#nextStep(part.stepIndex);
      await this.#body(part);
    }
    this.showWaiting();
  }

  /** Shows a message where it belongs: in the conversation. */
  say({ sender, text }: Pick<ChatLine, 'sender' | 'text'>): void {
    const { screen, me } = this.#setting;
    screen.print('');
    screen.print(text, { head: `${sender}> `, style: sender === me ? ['bold', 'cyan'] : ['bold', 'magenta'] });
  }

  /** Draws what goes on, and what waits, above the line. */
  showWaiting(): void {
    const { screen, waiting } = this.#setting;
    const calls = [...this.#calls.values()].map(
      ({ tool, arguments: args, says }): LiveRow => ({
        text: `  · ${tool} ${clipped(args, ARGUMENTS)}${says}`,
        style: 'dim',
      }),
    );
    const doing = calls.length > 0 ? null : this.#turn !== null ? this.#doing : this.#expected && 'is sent';
    const row: LiveRow[] = doing === null ? [] : [{ text: `  · ${doing}`, style: 'dim' }];
    screen.wait([...calls, ...row, ...waiting.rows()]);
  }

  async #message({ seq }: PartOf<'message'>): Promise<void> {
    const { chat } = this.#setting;
    const [view] = await chat.messages({ after: seq - 1, limit: 1 });
    if (view) this.#update(view);
  }

  /** How a message stands now. A rejected one is shown where that is learnt. */
  #update(view: MessageView): void {
    const { waiting, screen } = this.#setting;
    waiting.update(view);
    if (view.status !== 'rejected') return;
    const line = waiting.take(view.eventId);
    if (!line) return;
    screen.endStream();
    this.say(line);
    screen.print(`rejected: ${view.reason ?? 'a turn is at work'}`, { head: '✗ ', style: 'red' });
  }

  #begin(agentTurnId: string): void {
    const { waiting, screen } = this.#setting;
    screen.endStream();
    this.#turn = agentTurnId;
    this.#expected = null;
    this.#step = 0;
    this.#text = '';
    this.#isOpen = false;
    this.#doing = 'thinking';
    this.#calls.clear();
    for (const line of waiting.takeOf(agentTurnId)) this.say(line);
  }

  /** A message for the running turn is read before a step begins. */
  #nextStep(stepIndex: number): void {
    this.#step = stepIndex;
    this.#text = '';
    this.#doing = 'thinking';
    this.#sayRead();
  }

  #sayRead(): void {
    const { waiting, screen } = this.#setting;
    for (const line of this.#turn === null ? [] : waiting.takeOf(this.#turn)) {
      screen.endStream();
      this.say(line);
      this.#isOpen = false;
    }
  }

  /** How the messages that wait stand now: one that its turn did not read is in another one. */
  async #refresh(): Promise<void> {
    const { chat, waiting } = this.#setting;
    const first = waiting.firstSeq;
    if (first === undefined) return;
    for (const view of await chat.messages({ after: first - 1 })) this.#update(view);
  }

  async #body(part: Exclude<SessionPart, PartOf<'message'>>): Promise<void> {
    const { screen, questions } = this.#setting;
    switch (part.type) {
      case 'text':
        return this.#says(part.delta);
      case 'reasoning':
        this.#doing = 'thinking';
        return;
      case 'call_delta':
        screen.endStream();
        this.#doing = `writes a call of ${part.tool}`;
        return;
      case 'retracted':
        screen.endStream();
        if (this.#text !== '') screen.print('the answer is begun anew', { head: '  ', style: 'dim' });
        this.#text = '';
        return;
      case 'step':
        return this.#stepEnds(part);
      case 'progress':
        return this.#progress(part);
      case 'waiting':
        return this.#suspended(part);
      case 'result':
        return this.#result(part);
      case 'approval':
        if (part.phase === 'asked' || part.phase === 'escalated') return questions.find(part.agentTurnId);
        return this.#answered(part);
      case 'provider':
        screen.print(providerText(part), { head: '  ', style: 'yellow' });
        return;
      case 'end':
        return this.#end(part);
      default:
        return part satisfies never;
    }
  }

  #says(delta: string): void {
    const { screen } = this.#setting;
    if (!this.#isOpen) screen.print('');
    this.#isOpen = true;
    this.#text += delta;
    this.#doing = null;
    screen.stream(delta);
  }

  async #stepEnds({ calls, refusal }: PartOf<'step'>): Promise<void> {
    const { screen, waiting } = this.#setting;
    screen.endStream();
    this.#doing = calls.length === 0 ? null : 'thinking';
    if (refusal !== undefined) screen.print(`the model refused: ${refusal}`, { head: '  ', style: 'yellow' });
    for (const call of calls) this.#calls.set(call.callId, { ...call, says: '' });
    if (waiting.isEmpty) return;
    await this.#refresh();
    this.#sayRead();
    waiting.endStep();
  }

  #progress({ callId, progress }: PartOf<'progress'>): void {
    const call = this.#calls.get(callId);
    if (call) this.#calls.set(callId, { ...call, says: `: ${valueLine(progress)}` });
  }

  async #suspended({ agentTurnId, callId, tool, deadline }: PartOf<'waiting'>): Promise<void> {
    const { screen, client } = this.#setting;
    const { waiting } = await client.turn(agentTurnId).get();
    const call = this.#calls.get(callId);
    if (call) this.#calls.set(callId, { ...call, says: ': waits' });
    // A question is shown where it is asked.
    if (waiting.some((each) => each.callId === callId && each.kind === 'approval')) return;
    // What was waited for before somebody came is over.
    if (deadline <= Date.now()) return;
    const args = call ? ` ${clipped(call.arguments, ARGUMENTS)}` : '';
    const whom = isDelegation(tool) ? 'another agent' : 'a result from outside';
    const until = `for ${roughly(deadline - Date.now())}, until ${time(deadline)}`;
    screen.print(`${tool}${args} waits for ${whom} ${until}`, { head: '  ', style: 'yellow' });
    if (isDelegation(tool)) return;
    const [command = ''] = answerCommands({ kind: 'result', agentTurnId, callId });
    screen.print(`it is brought by: ${command}`, { head: '  ', style: 'dim' });
  }

  async #result(part: PartOf<'result'>): Promise<void> {
    const { screen, client } = this.#setting;
    const { agentTurnId, callId, tool, status, error } = part;
    const proposed = this.#calls.get(callId);
    this.#calls.delete(callId);
    this.#setting.waiting.endStep();
    const view = await client.turn(agentTurnId).get();
    const call = view.steps.flatMap(({ calls }) => calls).find((each) => each.callId === callId);
    const args = clipped(argumentsOf(call) ?? proposed?.arguments ?? '', ARGUMENTS);
    const took = call?.durationMs == null ? '' : `  ${duration(call.durationMs)}`;
    const isGood = status === 'success';
    const state = isGood ? '' : `  ${status}`;
    const code = error && error.code !== status ? `${error.code}, ` : '';
    const why = error ? `: ${code}${valueLine(error.message)}` : '';
    const style: RowStyle = isGood ? 'green' : 'red';
    screen.print(`${tool} ${args}${state}${took}${why}`, { head: isGood ? '  ✓ ' : '  ✗ ', style });
    this.#doing = this.#calls.size === 0 ? 'thinking' : this.#doing;
    this.#isOpen = false;
  }

  #answered({ agentTurnId, callId, tool, phase, by, reason }: PartOf<'approval'>): void {
    const { screen, questions } = this.#setting;
    questions.settle(agentTurnId, callId);
    const who = by === undefined ? '' : ` by ${by}`;
    const why = phase === 'denied' && reason ? `: ${valueLine(reason)}` : '';
    screen.print(`${tool || 'a larger budget'}: ${phase}${who}${why}`, { head: '  ', style: 'yellow' });
  }

  async #end({ agentTurnId, deliverable }: PartOf<'end'>): Promise<void> {
    const { screen, client, questions, waiting } = this.#setting;
    screen.endStream();
    this.#calls.clear();
    this.#doing = null;
    questions.end();
    const view = await client.turn(agentTurnId).get();
    if (!this.#isSaid(view)) {
      screen.print('');
      screen.print(deliverableText(deliverable));
    }
    const [failure, next] = turnFailureLines(view);
    if (failure !== undefined && !this.#isOpen) screen.print('');
    if (failure !== undefined) screen.print(failure, { head: '✗ ', style: 'red' });
    if (next !== undefined) screen.print(next, { head: '  ' });
    screen.print(effortText(view), { head: '  ', style: 'dim' });
    await this.#refresh();
    for (const line of waiting.takeOf(agentTurnId, true)) this.say(line);
    this.#turn = null;
    this.#last = agentTurnId;
  }

  /** Whether the deliverable is what was printed while it was written, or says nothing beside the failure. */
  #isSaid({ deliverable }: TurnView): boolean {
    if (deliverable === null || deliverable.fallback !== undefined) return true;
    return deliverable.fields === undefined && (deliverable.text ?? '').trim() === this.#text.trim();
  }
}

/** What the call ran with: what an approver changed counts. */
const argumentsOf = (call: CallView | undefined): string | undefined =>
  call && JSON.stringify(call.approval?.arguments ?? call.arguments);
