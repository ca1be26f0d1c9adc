/** The app that `agentturn dev` loads in the test of the chat at a terminal; its tools wait for files in the folder it runs in. */
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../../index.ts';

export default defineApp({
  agents: [
    defineAgent({
      name: 'assistant',
      governance: { rules: [{ tool: 'refund', action: 'ask', reason: 'refunds are money' }] },
    }),
  ],
  tools: [
    defineTool({
      name: 'find_order',
      description: 'finds an order',
      parameters: z.object({ order: z.string() }),
      sideEffects: 'none',
      async execute({ order }, { signal }) {
        while (!existsSync(order)) await sleep(50, undefined, { signal });
        return { order, paid: 250, state: 'arrived broken' };
      },
    }),
    defineTool({
      name: 'refund',
      description: 'pays back',
      parameters: z.object({ order: z.string(), amount: z.number() }),
      execute: ({ order, amount }) => ({ order, refunded: amount }),
    }),
  ],
});
