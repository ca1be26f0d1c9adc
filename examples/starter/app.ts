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

const weather = defineAgent({
  name: 'weather',
  instructions: 'You answer questions about the weather. Be brief.',
  budgets: { maxSteps: 10 },
});

export default defineApp({ agents: [weather], tools: [forecast] });
