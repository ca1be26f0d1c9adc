/** The app of two tenants: an agent that asks people and delegates to its like, and one that only operators may start. */
import { defineAgent, defineApp, defineTool } from 'agentturn';
import { z } from 'zod';

const askPerson = defineTool({
  name: 'ask_person',
  description: 'Asks a person.',
  parameters: z.object({ question: z.string() }),
  afterExecution: 'suspend',
  suspendTimeoutMs: 10 * 60_000,
});

const pay = defineTool({
  name: 'pay',
  description: 'Pays.',
  parameters: z.object({ to: z.string() }),
  execute: ({ to }) => ({ paid: to }),
});

const shared = {
  allowedTools: ['ask_person', 'pay'],
  delegationPolicy: { profiles: ['clerk'] },
  governance: { rules: [{ tool: 'pay', action: 'ask' as const, reason: 'it costs' }] },
  budgets: { maxSteps: 20 },
};

export default defineApp({
  agents: [defineAgent({ name: 'clerk', ...shared }), defineAgent({ name: 'admin', ...shared })],
  tools: [askPerson, pay],
});
