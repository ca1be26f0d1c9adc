/**
 * An app: three agents, four tools; one agent may ask another, one needs approval for what it does. Serve it and talk to it:
 *
 *   npx agentturn dev --app 01-weather-app.ts                                beside a package.json with agentturn
 *   npx agentturn run weather 'call forecast {"city":"Rome"}' --wait
 */
import { defineAgent, defineApp, defineTool } from 'agentturn';
import { z } from 'zod';

const forecast = defineTool({
  name: 'forecast',
  description: 'The forecast of a city for tomorrow.',
  parameters: z.object({ city: z.string().describe('name of the city') }),
  // Reads only, so it may run again after a crash; a tool that does not say is never run twice.
  sideEffects: 'none',
  execute: ({ city }) => ({ city, sky: city.length % 2 === 0 ? 'sunny' : 'rainy' }),
});

const askPerson = defineTool({
  name: 'ask_person',
  description: 'Asks a person. Use it when the forecast alone does not answer the question.',
  parameters: z.object({ question: z.string() }),
  // The turn waits, without holding a worker, until somebody reports the result or the deadline passes.
  afterExecution: 'suspend',
  suspendTimeoutMs: 10 * 60_000,
});

/** Where a weather station takes orders. */
const STATION = 'http://127.0.0.1:7290';

const orderReport = defineTool({
  name: 'order_report',
  description: 'Orders a report from the weather station of a city. It comes when it is written.',
  parameters: z.object({ city: z.string() }),
  // The station delivers to the URL of this call, for which it needs nothing else.
  afterExecution: 'suspend',
  suspendTimeoutMs: 60 * 60_000,
  sideEffects: 'idempotent',
  retry: { attempts: 5, initialMs: 200 },
  async execute({ city }, { callbackUrl, idempotencyKey, signal }) {
    const body = JSON.stringify({ city, callback: callbackUrl() });
    const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey };
    const response = await fetch(STATION, { method: 'POST', headers, body, signal });
    if (!response.ok) throw new Error(`the station answers ${response.status}`);
  },
});

const book = defineTool({
  name: 'book',
  description: 'Books a trip.',
  parameters: z.object({ city: z.string(), price: z.number().positive() }),
  execute: ({ city, price }) => ({ booked: city, price }),
});

export default defineApp({
  agents: [
    defineAgent({
      name: 'weather',
      instructions: 'You answer questions about the weather. Be brief.',
      allowedTools: ['forecast', 'ask_person', 'order_report'],
      budgets: { maxSteps: 10 },
    }),
    defineAgent({
      name: 'guide',
      instructions: 'You plan trips. Ask an expert whenever the weather matters.',
      allowedTools: [],
      // Offers `ask_expert` and `delegate_async`, for agents of these profiles only.
      delegationPolicy: { profiles: ['weather'] },
    }),
    defineAgent({
      name: 'travel',
      instructions: 'You book trips.',
      allowedTools: ['forecast', 'book'],
      governance: {
        // The first rule that applies decides; what no rule names is allowed.
        rules: [{ tool: 'book', action: 'ask', when: { path: 'price', min: 100 }, reason: 'it costs 100 or more' }],
        // Whatever anybody approves.
        constraints: [{ tool: 'book', path: 'price', max: 1_000 }],
        rateLimits: [{ tool: 'book', max: 3, windowMs: 3_600_000 }],
      },
      budgets: { maxSteps: 10, maxToolCalls: 20, onExhausted: 'ask' },
    }),
  ],
  tools: [forecast, askPerson, orderReport, book],
});
