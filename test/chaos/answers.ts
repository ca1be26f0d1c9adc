/**
 * Results from outside for calls that wait: late, doubled, by two clients at once, mixed with stale and foreign ones. Every ACK is
 * checked against what the protocol allows.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 } from 'uuid';
import type { AgentClient } from '../../client/agent-client.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { ReportAnswer } from '../../workflows/protocol/tool-result.ts';
import type { Ledger } from './ledger.ts';
import { noting, patiently } from './patience.ts';
import { type Random, randomOf } from './random.ts';

const FOREIGN_EPOCH = 1_000_000;

type Report = Parameters<TurnHandle['toolResult']>[0];

export class Answers {
  readonly #client: AgentClient;
  readonly #ledger: Ledger;
  readonly #random: Random;
  readonly #pending = new Set<Promise<void>>();

  constructor(client: AgentClient, ledger: Ledger, seed: number) {
    this.#client = client;
    this.#ledger = ledger;
    this.#random = randomOf(seed, 'answers');
  }

  onEvent(event: AgentEvent): void {
    const { agentTurnId, type, payload } = event;
    if (agentTurnId === null) return;
    if (type === 'call' && payload.phase === 'suspended' && payload.tool === 'ask') {
      this.#track('an answer', () => this.#answer(agentTurnId, payload.callId));
    }
    if (type === 'approval' && payload.phase === 'asked' && !this.#random.chance(0.1)) {
      this.#track('approval', () => this.#decide(agentTurnId, payload.callId));
    }
    if (
      type === 'step' &&
      payload.phase === 'executing' &&
      payload.tools?.includes('ask') &&
      this.#random.chance(0.15)
    ) {
      this.#track('an early answer', () => this.#answerEarly(agentTurnId));
    }
  }

  /** Resolves when every answer that was begun is done. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #track(what: string, work: () => Promise<void>): void {
    const done = noting(this.#ledger, what, work).finally(() => this.#pending.delete(done));
    this.#pending.add(done);
  }

  async #answer(agentTurnId: string, callId: string): Promise<void> {
    const random = this.#random;
    const success = { callId, status: 'success', result: { answered: callId } } as const;
    await sleep(random.chance(0.2) ? random.int(2_000, 8_000) : random.int(0, 1_500));
    if (random.chance(0.2)) await this.#send(agentTurnId, { ...success, turnEpoch: FOREIGN_EPOCH }, ['stale']);
    if (random.chance(0.1)) await this.#send(agentTurnId, { ...success, callId: v7() }, ['unknown', 'stale']);
    if (random.chance(0.2)) {
      await this.#send(agentTurnId, { callId, status: 'running' }, ['applied', 'duplicate', 'buffered', 'stale']);
    }
    const several = random.chance(0.3) ? 3 : 1;
    const sent = Array.from({ length: several }, () => this.#send(agentTurnId, success, RESULT_ACKS));
    const acks = await Promise.all(sent);
    const winners = acks.filter((ack) => ack === 'applied' || ack === 'buffered').length;
    if (winners > 1) this.#wrong(agentTurnId, `${winners} of ${several} equal results were accepted`);
    if (!random.chance(0.4)) return;
    await sleep(random.int(0, 3_000));
    await this.#send(agentTurnId, success, acks.includes('applied') ? ['duplicate'] : ['duplicate', 'stale']);
  }

  /** One or several people at once; what the first of them says holds. */
  async #decide(agentTurnId: string, callId: string): Promise<void> {
    const random = this.#random;
    await sleep(random.int(0, 3_000));
    const turn = this.#client.turn(agentTurnId);
    const decisions = Array.from({ length: random.chance(0.3) ? 3 : 1 }, () =>
      random.chance(0.3) ? ('denied' as const) : ('approved' as const),
    );
    const acks = await Promise.all(
      decisions.map((decision) => patiently(this.#ledger, 'approval', () => turn.answer({ callId, decision }))),
    );
    for (const [index, ack] of acks.entries()) {
      if (!ack) continue;
      this.#ledger.count(`questions answered ${ack.ack}`);
      if (ack.ack === 'applied' && decisions[index] === 'denied') this.#ledger.denied.add(callId);
      if (ack.ack === 'unknown') this.#wrong(agentTurnId, `the question about ${callId} was answered unknown`);
    }
    const winners = acks.filter((ack) => ack?.ack === 'applied').length;
    if (winners > 1) this.#wrong(agentTurnId, `${winners} of ${acks.length} answers to one question were accepted`);
  }

  /** A result for a call that runs, or has not even started: kept, and applied when it suspends. */
  async #answerEarly(agentTurnId: string): Promise<void> {
    const view = await this.#client.turn(agentTurnId).get();
    const calls = view.steps.flatMap((step) => step.calls).filter((call) => call.tool === 'ask');
    for (const { callId } of calls) {
      this.#ledger.answeredEarly.add(callId);
      await this.#send(agentTurnId, { callId, status: 'success', result: { early: true } }, RESULT_ACKS);
    }
  }

  async #send(
    agentTurnId: string,
    report: Report,
    allowed: readonly ReportAnswer[],
  ): Promise<ReportAnswer | undefined> {
    const turn = this.#client.turn(agentTurnId);
    const answer = await patiently(this.#ledger, 'a tool result', () => turn.toolResult(report));
    if (!answer) return undefined;
    this.#ledger.count(`results answered ${answer.ack}`);
    if (!allowed.includes(answer.ack)) {
      this.#wrong(agentTurnId, `${JSON.stringify(report)} was answered ${answer.ack}, not ${allowed.join(' or ')}`);
    }
    return answer.ack;
  }

  #wrong(agentTurnId: string, detail: string): void {
    this.#ledger.problem({ check: 'wrong_ack', agentTurnId, detail });
  }
}

const RESULT_ACKS: readonly ReportAnswer[] = ['applied', 'buffered', 'duplicate', 'stale'];
