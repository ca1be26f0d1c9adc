/** An agent that asks: one suspending tool `ask`, a script that calls it, and what tests want to know of such turns. */
import { z } from 'zod';
import { defineTool } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { TaskEvent } from '../../workflows/contract/events.ts';
import type { Store } from '../../workflows/contract/store.ts';

export const say = (content: string) => ({ kind: 'message', content }) as const;
export const calls = (...names: readonly string[]) =>
  ({ kind: 'message', toolCalls: names.map((name) => ({ name, arguments: {} })) }) as const;

/** Waits for an answer for ten minutes. */
export const askTool = defineTool({
  name: 'ask',
  description: 'a person answers',
  parameters: z.object({}),
  afterExecution: 'suspend',
  suspendTimeoutMs: 600_000,
});

export const askScripts = { answer: [say('done')], ask: [calls('ask'), say('thanks')] };

/** Resolves with the ids of the waiting calls, in the order of the calls, once there are `count`. */
export async function suspended(turn: TurnHandle, count = 1): Promise<readonly string[]> {
  for await (const event of turn.events()) {
    if (event.type === 'state' && event.payload.waitingToolCount === count) break;
    if (event.type === 'task') throw new Error(`the turn ended: ${JSON.stringify(event.payload)}`);
  }
  const { steps, waiting } = await turn.get();
  const calls = steps.flatMap((step) => step.calls.map(({ callId }) => callId));
  return calls.filter((callId) => waiting.some((one) => one.callId === callId));
}

export async function taskEvents(store: Store, turn: TurnHandle): Promise<readonly TaskEvent['payload'][]> {
  const { agentId } = await turn.get();
  const events = await store.readEvents({ agentId, agentTurnId: turn.id, limit: 1_000 });
  return events.flatMap((event) => (event.type === 'task' ? [event.payload] : []));
}
