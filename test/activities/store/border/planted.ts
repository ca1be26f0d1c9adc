/** A tenant that has one of everything, each with a phrase that nobody else may read. */
import { v7 } from 'uuid';
import { callId as callIdOf, deliveryCardId, forkedBoxId } from '../../../../activities/ids.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { ClientStore } from '../../../../workflows/contract/store.ts';
import { enqueueRequestSchema } from '../../../../workflows/protocol/enqueue.ts';
import { messageOf } from '../chat/session.ts';
import { fenceOf, type StoreBench } from '../store-bench.ts';

/** The ids of what a tenant has. */
export interface Planted {
  readonly phrase: string;
  readonly agentId: string;
  /** An ended turn of that agent, and an open one that waits for a person. */
  readonly endedId: string;
  readonly turnId: string;
  readonly callId: string;
  /** The agent that its turn has made, and the turn that this one has. */
  readonly childId: string;
  readonly childTurnId: string;
  readonly chatId: string;
  readonly session: string;
  readonly triggerId: string;
  readonly cards: {
    readonly instruction: string;
    readonly output: string;
    readonly delivery: string;
    readonly thought: string;
  };
  readonly boxes: { readonly context: string; readonly output: string; readonly history: string };
}

/** A store as the tenant has it. */
export const tenantStore = ({ store }: StoreBench, tenant: string): ClientStore =>
  store.within({ tenant, anyProfile: true });

/** Leases a turn of an agent of the tenant, whatever the agent is called within it. */
export async function begun(
  bench: StoreBench,
  tenant: string | null,
  agentId: string,
  input: object = {},
): Promise<Lease> {
  const request = enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...input });
  const on = tenant === null ? bench.store : tenantStore(bench, tenant);
  const accepted = await on.accept({ agentId, request });
  if (accepted.kind !== 'accepted') throw new Error(accepted.message);
  if (!accepted.lease) throw new Error(`agent ${agentId} is not idle`);
  return accepted.lease;
}

/** Behind the steps with which the bench delegates. */
const ASKED_STEP = 10_000;

/** Makes one of everything for a tenant; of `null`, for the operators, under an agent of that name. */
export async function planted(bench: StoreBench, tenant: string | null, name: string): Promise<Planted> {
  const phrase = `sesame-${v7()}`;
  const own = tenant === null ? bench.store : tenantStore(bench, tenant);
  const ended = await begun(bench, tenant, name, { instruction: phrase });
  await bench.think(ended, 1, [], {}, { thought: { text: phrase, toolCalls: [] } });
  await bench.ended(ended);
  const { agentId } = ended;
  await own.createTrigger(agentId, { triggerId: `trigger_${phrase}`, name: phrase, tokenHash: phrase });
  const context = await own.writeContextBox([phrase]);
  const turn = await begun(bench, tenant, name, { instruction: phrase, contextBoxId: context });
  const { delegation, handover } = await bench.delegated(
    turn,
    { strategy: 'new', profile: 'doctor' },
    { includeHistory: true, instruction: phrase },
  );
  const child = handover?.next;
  if (!child) throw new Error(`nothing was delegated: ${JSON.stringify(delegation)}`);
  await bench.store.fireTrigger(phrase, { text: phrase, key: phrase });
  const proposed = { callId: callIdOf(turn.agentTurnId, ASKED_STEP, 0), tool: 'ask', arguments: { phrase } };
  const { calls } = await bench.think(turn, ASKED_STEP, ['ask'], { content: proposed });
  const callId = calls[0]?.callId ?? '';
  await bench.store.askApprovals(fenceOf(turn), [{ callId, kind: 'call', tool: 'ask', reason: phrase }]);
  const chatId = `c-${phrase}`;
  await own.sendMessage({ agentId, message: messageOf(phrase, { chatId }), profile: 'tester' });
  const cards = await bench.store.readBox(turn.outputBoxId);
  return {
    phrase,
    agentId,
    endedId: ended.agentTurnId,
    turnId: turn.agentTurnId,
    callId,
    childId: child.agentId,
    childTurnId: child.agentTurnId,
    chatId,
    session: `${agentId}~${chatId}`,
    triggerId: `trigger_${phrase}`,
    cards: {
      instruction: await own.writeInstructionCard(phrase),
      output: await own.writeOutputCard(phrase),
      delivery: deliveryCardId(agentId, `trigger_${phrase}`, '1'),
      thought: cards.find(({ card }) => card.type === 'agent.thought')?.card.cardId ?? '',
    },
    boxes: { context, output: turn.outputBoxId, history: forkedBoxId(turn.outputBoxId, delegation.callId) },
  };
}
