/** A chat session of a store, and what is sent to it. */
import { v7 } from 'uuid';
import type { MessageSent, SendMessage } from '../../../../workflows/contract/chat.ts';
import type { Lease, TurnCommit } from '../../../../workflows/contract/lease.ts';
import { type MessageEnvelope, messageEnvelopeSchema } from '../../../../workflows/protocol/chat.ts';
import type { ProfileInput } from '../../../../workflows/protocol/profile.ts';
import { testApp } from '../../../support/app.ts';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

/** A message as a client completes it. */
export function messageOf(text: string, more: Partial<MessageEnvelope> = {}): MessageEnvelope {
  const eventId = v7();
  return messageEnvelopeSchema.parse({
    eventId,
    chatId: 'c1',
    timestampMs: 1,
    type: 'chat.message',
    sender: { agentId: 'ann' },
    idempotencyKey: eventId,
    traceId: 'trace',
    correlationId: 'correlation',
    payload: { text },
    ...more,
  });
}

/** A session, and what is sent to it. */
export class Session {
  readonly of = newAgent();
  readonly agentId = `${this.of}~c1`;
  readonly bench: StoreBench;
  readonly profile: string;

  constructor(bench: StoreBench, profile = 'tester') {
    this.bench = bench;
    this.profile = profile;
  }

  send(
    text: string,
    { policy, ...more }: Partial<MessageEnvelope> & Pick<SendMessage, 'policy'> = {},
    on = this.bench.store,
  ) {
    const input = { agentId: this.of, profile: this.profile, message: messageOf(text, more) };
    return on.sendMessage(policy === undefined ? input : { ...input, policy });
  }

  async sent(text: string, more: Parameters<Session['send']>[1] = {}): Promise<MessageSent> {
    const outcome = await this.send(text, more);
    if (outcome.kind !== 'sent') throw new Error(`${outcome.code}: ${outcome.message}`);
    return outcome;
  }

  /** The first message, with the lease of its turn. */
  async started(text = 'hello'): Promise<Lease> {
    const { handover } = await this.sent(text);
    if (!handover?.next) throw new Error('nothing was leased');
    return handover.next;
  }

  async ended(lease: Lease, commit: TurnCommit = SUCCESS): Promise<Lease | null> {
    return (await this.bench.store.commitTurn(fenceOf(lease), commit)).handover.next;
  }

  /** The messages as `text status turn`, the turns as numbers in the order of the messages. */
  async messages(): Promise<string[]> {
    const turns: string[] = [];
    return (await this.bench.store.listMessages(this.agentId)).map(({ payload, status, agentTurnId }) => {
      if (agentTurnId !== null && !turns.includes(agentTurnId)) turns.push(agentTurnId);
      return `${payload.text} ${status} ${agentTurnId === null ? '-' : turns.indexOf(agentTurnId) + 1}`;
    });
  }

  async instruction(turnId: string): Promise<string> {
    return (await this.bench.store.getTurn(turnId))?.instruction ?? '';
  }

  /** What the agent remembers, as texts. */
  async remembered(): Promise<string[]> {
    const { outputBoxId } = (await this.bench.store.getAgent(this.agentId)) ?? {};
    const cards = await this.bench.store.readBox(outputBoxId ?? '');
    return cards.map(({ card }) => (card.type === 'task.instruction' ? card.content.text : card.type));
  }
}

/** Registers a profile with a name of its own. */
export async function profileNamed(bench: StoreBench, agent: Partial<ProfileInput>): Promise<string> {
  const name = `profile-${v7()}`;
  await bench.store.registerProfiles([...testApp([], { ...agent, name }).agents.values()]);
  return name;
}
