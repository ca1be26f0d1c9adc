/**
 * The kernel alone: one turn without Temporal, store or network.
 *
 *   node 02-kernel-alone.ts                                                  beside a package.json with agentturn
 *
 * The kernel is one pure function: `step(state, event) → {state, actions, observations}`. It decides and does nothing itself: it calls no
 * model and no tool, reads no clock, and holds no text, only handles: "card 3 is what a tool answered, 12 tokens". Its driver does what
 * the action asks for, and brings back what came of it as the next event, with the time in it:
 *
 *   start         → call_llm        show the model these cards
 *   llm_response  → execute_tools   run these calls, ask approval for those
 *   tool_results  → await           a person must be asked first
 *   approval      → execute_tools   run what got approval
 *   tool_results  → call_llm        show the model what came of it
 *   llm_response  → done            the turn is over
 *
 * The workflow of a turn is the same loop with Temporal activities in place of the functions below. The state is plain JSON, so a turn
 * can stop between any two steps and go on elsewhere.
 */
import {
  budgetsSchema,
  drainNewMessages,
  factsAt,
  governanceSchema,
  type Handle,
  type HandleRole,
  initialState,
  type JsonObject,
  type KernelAction,
  type KernelEvent,
  step,
  waitingCalls,
} from 'agentturn/kernel';

/** The texts of the conversation, which the kernel never sees; the place of a card is its position in this list. */
const cards: { readonly role: HandleRole; readonly text: string }[] = [];

function write(role: HandleRole, text: string): Handle {
  cards.push({ role, text });
  return [cards.length, role, Math.ceil(text.length / 4)];
}

const tools: Readonly<Record<string, (args: JsonObject) => string>> = {
  forecast: ({ city }) => `tomorrow will be sunny in ${city}`,
  book: ({ city, price }) => `a train to ${city} is booked for ${price}`,
};

interface Reply {
  readonly text: string;
  readonly calls: readonly { readonly callId: string; readonly tool: string; readonly args: JsonObject }[];
}

/** A model that follows a script: two calls, then an answer made of what they gave. */
function model(prompt: readonly string[]): Reply {
  if (prompt.length > 1) return { text: `Done: ${prompt.slice(2).join('; ')}.`, calls: [] };
  const call = (tool: string, args: JsonObject) => ({ callId: `call-${tool}`, tool, args });
  return { text: '', calls: [call('forecast', { city: 'Rome' }), call('book', { city: 'Rome', price: 120 })] };
}

/** The rules: a booking that costs 100 or more waits until a person approves it. */
const governance = governanceSchema.parse({
  rules: [{ tool: 'book', action: 'ask', when: { path: 'price', min: 100 }, reason: 'it costs 100 or more' }],
});

let state = initialState({
  budgets: budgetsSchema.parse({ maxSteps: 10, maxTokens: 5_000 }),
  context: { windowTokens: 8_000, answerTokens: 500, fixedTokens: 0 },
  governance,
  mustEndWith: [],
  submitResult: false,
});
const argumentsOf = new Map<string, JsonObject>();
let nowMs = 0;

/** The driver: does what one action asks for, and says what came of it. */
function outcomeOf(action: KernelAction): KernelEvent {
  nowMs += 1_000;
  switch (action.type) {
    case 'call_llm': {
      // The plan names the cards to show, as ranges: it stays short however long the turn.
      const shown = action.plan.ranges.flatMap(({ fromSeq, toSeq }) => cards.slice(fromSeq - 1, toSeq));
      const { text, calls } = model(shown.map((card) => card.text));
      for (const { callId, args } of calls) argumentsOf.set(callId, args);
      return {
        type: 'llm_response',
        nowMs,
        stepIndex: action.stepIndex,
        handles: [write('assistant', text)],
        thoughtCardId: String(cards.length),
        hasText: text !== '',
        refused: false,
        // The kernel sees only those arguments that rules name, and a digest by which it knows a repeated call.
        calls: calls.map(({ callId, tool, args }) => ({
          callId,
          tool,
          digest: JSON.stringify(args),
          facts: factsAt(governance, tool, args),
        })),
        usage: { input: 100, output: 20, cached: 0 },
      };
    }
    case 'execute_tools': {
      const settled = action.calls.map(({ callId, tool }) => {
        const [seq, , tokens] = write('tool', tools[tool]?.(argumentsOf.get(callId) ?? {}) ?? 'no such tool');
        return { callId, status: 'success', afterExecution: 'continue', seq, tokens } as const;
      });
      // A call that needs approval is not run yet; it waits for an hour at most.
      const suspended = (action.ask ?? []).map(({ callId }) => ({ callId, deadline: nowMs + 3_600_000 }));
      return { type: 'tool_results', nowMs, settled, suspended };
    }
    case 'await': {
      const answers = waitingCalls(state).map(({ callId }) => ({ callId, decision: 'approved', by: 'ann' }) as const);
      return { type: 'approval', nowMs, answers };
    }
    default:
      // `summarize` comes only when the window is nearly full, and after `done` the loop ends.
      throw new TypeError(`this turn is too short for ${action.type}`);
  }
}

/** The loop: an event goes in, the new state and an action come out, until the action is `done`. */
let event: KernelEvent = {
  type: 'start',
  nowMs,
  outputBoxId: 'box',
  earlier: [],
  instruction: write('user', 'Book me a train to Rome, if the weather is fine.'),
};
let mark = 0;
let status = '';
for (;;) {
  const { state: next, actions, observations } = step(state, event);
  state = next;
  const fresh = drainNewMessages(state, mark);
  mark = fresh.mark;
  const { fromSeq = 1, toSeq = 0 } = fresh.cards ?? {};
  for (const { role, text } of cards.slice(fromSeq - 1, toSeq)) console.log(`  ${role}: ${text}`);
  for (const { type, ...what } of observations) console.log(`  observed ${type} ${JSON.stringify(what)}`);
  const [action] = actions;
  if (!action) throw new Error(`the kernel has no answer to ${event.type} while ${state.phase.kind}`);
  const { type, ...what } = action;
  console.log(`${event.type} → ${type} ${JSON.stringify(what)}`);
  if (action.type === 'done') {
    status = action.termination.status;
    break;
  }
  event = outcomeOf(action);
}

console.log(`ended ${status} after ${state.stepIndex} model calls: ${cards.at(-1)?.text}`);
