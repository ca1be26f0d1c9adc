/**
 * Who answers `confirm_scope`: the person at the terminal, an option of the command, or nobody (then its deadline does).
 *
 * Invariant: a person at the terminal gets more than the call's three seconds: while the question stands there, heartbeats move the
 * deadline.
 */
import type { TurnHandle } from '../../client/api.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import type { Terminal } from '../commands/terminal.ts';
import { CONFIRM_SCOPE } from './app.ts';

const HEARTBEAT_MS = 1_000;
/** How long a person at the terminal may take to answer. */
const PATIENCE_MS = 120_000;

/** The result of `confirm_scope`. */
export type Reply = { answer: 'yes' | 'no'; note?: string };

/** Who may answer. */
export interface PersonOptions {
  /** The answer that an option of the command gives; undefined when it gives none. */
  readonly answer: 'yes' | 'no' | undefined;
  /** The terminal at which a person can be asked; undefined when nobody is there. */
  readonly terminal: Terminal | undefined;
  /** Prints a line for people. */
  readonly say: (line: string) => void;
}

/** Answers the questions of one turn. */
export class Person {
  readonly #turn: TurnHandle;
  readonly #options: PersonOptions;
  readonly #asking = new Map<string, AbortController>();
  readonly #answers: Promise<void>[] = [];

  constructor(turn: TurnHandle, options: PersonOptions) {
    this.#turn = turn;
    this.#options = options;
  }

  /** Takes an event of the turn: a suspended `confirm_scope` is answered, and the question of a settled one withdrawn. */
  see(event: AgentEvent): void {
    if (event.type !== 'call' || event.payload.tool !== CONFIRM_SCOPE) return;
    const { callId, phase } = event.payload;
    if (phase === 'settled') this.#asking.get(callId)?.abort();
    if (phase !== 'suspended') return;
    const settled = new AbortController();
    this.#asking.set(callId, settled);
    const response = this.#respond(callId, settled.signal);
    // A failure is reported by `done`; until then it must not count as an unhandled rejection.
    response.catch(() => {});
    this.#answers.push(response);
  }

  /** Resolves when nothing is being asked or answered any more. Rejects when an answer could not be brought. */
  async done(): Promise<void> {
    for (const settled of this.#asking.values()) settled.abort();
    await Promise.all(this.#answers);
  }

  async #respond(callId: string, settled: AbortSignal): Promise<void> {
    const { answer, terminal, say } = this.#options;
    if (answer !== undefined) return this.#answer(callId, { answer });
    if (terminal === undefined) return say('            nobody is there to ask: it goes on by itself at the deadline');
    const reply = await this.#ask(callId, terminal, settled);
    if (reply !== undefined) await this.#answer(callId, reply);
  }

  async #ask(callId: string, terminal: Terminal, settled: AbortSignal): Promise<Reply | undefined> {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    const beat = () => this.#turn.toolResult({ callId, status: 'running' });
    await beat();
    // A lost heartbeat only means that the deadline comes sooner.
    const heartbeat = setInterval(() => void beat().catch(() => {}), HEARTBEAT_MS);
    try {
      const { plan } = await this.#argumentsOf(callId);
      this.#options.say('');
      if (typeof plan === 'string') this.#options.say(`  The agent's plan: ${plan}`);
      const prompt = '  Go on? [Enter or yes / no / a note, e.g. a folder to stay in] ';
      const reply = await terminal.ask(prompt, AbortSignal.any([settled, patience]));
      return reply === undefined ? undefined : replyOf(reply.trim());
    } finally {
      clearInterval(heartbeat);
    }
  }

  async #argumentsOf(callId: string): Promise<JsonObject> {
    const { steps } = await this.#turn.get();
    const call = steps.flatMap((step) => step.calls).find((candidate) => candidate.callId === callId);
    const given = call?.arguments;
    return typeof given === 'object' && given !== null && !Array.isArray(given) ? (given as JsonObject) : {};
  }

  async #answer(callId: string, result: Reply): Promise<void> {
    const { ack } = await this.#turn.toolResult({ callId, status: 'success', result });
    if (ack !== 'applied') this.#options.say(`            the answer came too late (${ack})`);
  }
}

/** What a line typed at the terminal stands for: yes, no, or yes with a note. */
export function replyOf(reply: string): Reply {
  if (/^y(?:es)?$/i.test(reply)) return { answer: 'yes' };
  if (/^no?$/i.test(reply)) return { answer: 'no' };
  return reply === '' ? { answer: 'yes' } : { answer: 'yes', note: reply };
}
