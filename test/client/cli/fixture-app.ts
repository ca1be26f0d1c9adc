/** The app that `agentturn worker` loads in the tests of the command line. */
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../index.ts';

export default defineApp({
  agents: [
    defineAgent({ name: 'remote', workerTarget: 'worker_remote' }),
    defineAgent({ name: 'clerk', governance: { rules: [{ tool: 'refund', action: 'ask', reason: 'it is money' }] } }),
  ],
  tools: [
    defineTool({
      name: 'add',
      description: 'adds',
      parameters: z.object({ a: z.number(), b: z.number() }),
      sideEffects: 'none',
      execute: ({ a, b }, { logger }) => {
        logger.info('adds');
        return { sum: a + b };
      },
    }),
    defineTool({
      name: 'refund',
      description: 'pays back',
      parameters: z.object({ amount: z.number() }),
      execute: ({ amount }) => ({ refunded: amount }),
    }),
    defineTool({
      name: 'sign_off',
      description: 'waits for a person',
      parameters: z.object({ what: z.string() }),
      afterExecution: 'suspend',
      suspendTimeoutMs: 300_000,
    }),
  ],
});
