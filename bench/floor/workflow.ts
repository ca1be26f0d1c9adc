/**
 * The floor: what a turn costs on bare Temporal. Model → tool → model as plain activities and nothing else, the conversation in the
 * workflow, no agent, no store, no limits. Everything ours does on top of this is what the bench shows.
 */
import { proxyActivities } from '@temporalio/workflow';

export interface FloorCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export type FloorMessage =
  | { readonly role: 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string; readonly calls: readonly FloorCall[] }
  | { readonly role: 'tool'; readonly content: string; readonly callId: string };

export interface FloorActivities {
  floorModel(
    messages: readonly FloorMessage[],
  ): Promise<{ readonly text: string; readonly calls: readonly FloorCall[] }>;
  floorTool(call: FloorCall): Promise<string>;
}

const { floorModel, floorTool } = proxyActivities<FloorActivities>({ startToCloseTimeout: '1m' });

export async function floorTurn(instruction: string): Promise<string> {
  const messages: FloorMessage[] = [{ role: 'user', content: instruction }];
  for (;;) {
    const { text, calls } = await floorModel(messages);
    if (calls.length === 0) return text;
    messages.push({ role: 'assistant', content: text, calls });
    const results = await Promise.all(calls.map((call) => floorTool(call)));
    for (const [index, content] of results.entries()) {
      messages.push({ role: 'tool', content, callId: calls[index]?.id ?? '' });
    }
  }
}
