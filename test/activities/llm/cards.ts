/** Cards by hand, and conversations of random turns as the store would have kept them. */
import fc from 'fast-check';
import type {
  Card,
  CardContents,
  CardType,
  ThoughtCall,
  ToolResultContent,
} from '../../../workflows/protocol/cards.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { Deliverable } from '../../../workflows/protocol/turn.ts';

let made = 0;

export function card<T extends CardType>(type: T, content: CardContents[T], agentTurnId = 't1', stepIndex = 1): Card {
  made += 1;
  const callId = 'callId' in content ? content.callId : null;
  return { cardId: `card-${made}`, type, content, agentTurnId, stepIndex, callId, tokens: 1 } as Card;
}

export const instruction = (text: string, turn = 't1'): Card => card('task.instruction', { text }, turn);

/** A thought that calls tools, by name. */
export const thought = (text: string, calls: readonly ThoughtCall[] = [], turn = 't1', stepIndex = 1): Card =>
  card('agent.thought', { text, toolCalls: calls }, turn, stepIndex);

export const proposed = (callId: string, name = 'add', more: Partial<ThoughtCall> = {}): ThoughtCall => ({
  callId,
  providerCallId: `wire-${callId}`,
  name,
  arguments: '{}',
  ...more,
});

export const result = (callId: string, more: Partial<ToolResultContent> = {}, turn = 't1'): Card =>
  card(
    'tool.result',
    { callId, tool: 'add', status: 'success', afterExecution: 'continue', result: { of: callId }, ...more },
    turn,
  );

export const deliverable = (content: Deliverable, turn = 't1'): Card => card('task.deliverable', content, turn);

const text = fc.string({ minLength: 1, maxLength: 12 }).filter((value) => value.trim() !== '');
const outcome = fc.constantFrom('success', 'failed', 'timeout', 'canceled', 'partial', 'missing');

const stepOf = fc.record({
  said: fc.option(text, { nil: '' }),
  outcomes: fc.array(outcome, { maxLength: 4 }),
  value: fc.oneof(fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<JsonValue>, fc.constantFrom('', null, 0)),
  note: fc.constantFrom(undefined, undefined, 'sys.must_end_with_required' as const, 'sys.final_report' as const),
});

const turnOf = fc.record({
  asked: text,
  context: fc.array(text, { maxLength: 2 }),
  steps: fc.array(stepOf, { maxLength: 4 }),
  end: fc.constantFrom('thought', 'tool_result', 'fields', 'fallback', 'none'),
  /** Some servers number the calls of each message from 0. */
  repeatsProviderIds: fc.boolean(),
});

type RandomTurn = typeof turnOf extends fc.Arbitrary<infer T> ? T : never;
type RandomStep = RandomTurn['steps'][number];

/**
 * A few turns of one agent in the order of its box, the last one perhaps still open. No two thoughts say the same: what a model says
 * twice is a case of its own.
 */
export const conversations: fc.Arbitrary<readonly Card[]> = fc
  .array(turnOf, { minLength: 1, maxLength: 4 })
  .map((turns) => turns.flatMap((turn, index) => cardsOf(turn, `t${index}`)));

function cardsOf(turn: RandomTurn, id: string): Card[] {
  const context = turn.context.map((note) => card('context.note', { text: note }, id));
  const steps = turn.steps.flatMap((step, index) => stepCards(step, id, index + 1, turn.repeatsProviderIds));
  return [instruction(turn.asked, id), ...context, ...steps, ...endOf(turn, id)];
}

function stepCards(step: RandomStep, turn: string, index: number, repeats: boolean): Card[] {
  const calls = step.outcomes.map((_, at) =>
    proposed(`${turn}.${index}.${at}`, 'add', repeats ? { providerCallId: `call_${at}` } : {}),
  );
  const results = calls.flatMap(({ callId }, at) => {
    const status = step.outcomes[at] ?? 'missing';
    if (status === 'missing') return [];
    if (status === 'success') return [result(callId, { result: step.value }, turn)];
    return [result(callId, { status, error: { code: 'tool_failed', message: 'no' } }, turn)];
  });
  return [
    ...(step.note ? [card(step.note, { text: 'a note' }, turn, index)] : []),
    thought(step.said && `${step.said} ${turn}.${index}`, calls, turn, index),
    ...calls.map(({ callId, name }) => card('tool.call', { callId, tool: name, arguments: {} }, turn, index)),
    ...results,
  ];
}

function endOf({ end, steps }: RandomTurn, turn: string): Card[] {
  const last = steps.at(-1);
  switch (end) {
    case 'thought':
      return last?.said ? [deliverable({ text: `${last.said} ${turn}.${steps.length}` }, turn)] : [];
    case 'tool_result':
      return [deliverable({ text: `result of ${turn}` }, turn)];
    case 'fields':
      return [deliverable({ fields: [{ name: 'answer', value: 42 }] }, turn)];
    case 'fallback':
      return [deliverable({ fallback: { reason: 'it was stopped', toolResults: 0 } }, turn)];
    default:
      return [];
  }
}
