/** A tool, and a turn whose model has just called it. */

import { expect } from '@jest/globals';
import { z } from 'zod';
import { defineTool, type ToolDefinition } from '../../../activities/app/app.ts';
import { callModel } from '../../../activities/llm/call-model.ts';
import { ChunkWriter } from '../../../activities/llm/chunk-writer.ts';
import { openAiModel } from '../../../activities/llm/openai.ts';
import type { Tool } from '../../../activities/tool.ts';
import { runTool } from '../../../activities/tools/run-tool.ts';
import type { HandoverExecutor } from '../../../activities/turn-workflows.ts';
import { startModelServer } from '../../../workers/model-server/wire.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { EnqueueInput } from '../../../workflows/protocol/enqueue.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { ProfileInput } from '../../../workflows/protocol/profile.ts';
import { testApp } from '../../support/app.ts';
import { attempt, type LeasedTurn, leaseTurn, modelInput } from '../llm/leased-turn.ts';

const open: { close(): Promise<void> }[] = [];

/** Rejects every handover: a tool that delegates nothing starts and wakes no workflow. */
export const NO_WORKFLOWS: HandoverExecutor = {
  handOver: () => Promise.reject(new Error('no workflow is to be started or woken')),
};

/** Closes the stores and servers of all calls so far. */
export async function closeCalls(): Promise<void> {
  await Promise.all(open.splice(0).map((each) => each.close()));
}

/** A tool named `work` that takes anything. */
export const work = (
  execute: ToolDefinition<z.ZodObject>['execute'],
  more: Partial<Omit<ToolDefinition<z.ZodObject>, 'execute'>> = {},
): Tool =>
  defineTool({
    name: 'work',
    description: '',
    parameters: z.looseObject({}),
    ...(execute ? { execute } : {}),
    ...more,
  });

export interface Call {
  readonly turn: LeasedTurn;
  readonly callId: string;
  readonly run: ReturnType<typeof runTool>;
  readonly input: Parameters<ReturnType<typeof runTool>>[0];
  /** What the card of the result says; null when there is no result. */
  result(): Promise<ToolResultContent | null>;
}

/** A turn whose model proposed one call of the tool. */
export async function call(
  tool: Tool,
  args: JsonObject = {},
  agent: Partial<ProfileInput> = {},
  request: Partial<EnqueueInput> = {},
): Promise<Call> {
  const app = testApp([tool], agent);
  const { name } = tool.spec;
  const turn = await leaseTurn(app, request);
  const server = await startModelServer({
    answer: () => ({ kind: 'message', toolCalls: [{ name, arguments: args }] }),
  });
  open.push(turn, server);
  const { fence, lease, store } = turn;
  const model = openAiModel({ apiKey: 'k', baseUrl: server.url, defaultModel: 'm' });
  const { calls } = await attempt(callModel({ store, app, model, chunks: new ChunkWriter(store) }), modelInput(turn));
  const callId = calls[0]?.callId ?? '';
  expect(calls).toEqual([{ callId, tool: name, digest: expect.any(String) }]);
  return {
    turn,
    callId,
    run: runTool({ store, app, workflows: NO_WORKFLOWS }),
    input: { ...fence, profileHash: lease.profileHash, callId, tool: name },
    async result() {
      const cards = (await store.readBox(lease.outputBoxId)).map(({ card }) => card);
      return cards.flatMap((card) => (card.type === 'tool.result' ? [card.content] : []))[0] ?? null;
    },
  };
}
