/**
 * Cards → chat messages (W19). Pure.
 *
 * Invariant: what comes out is well-formed whatever cards went in: each tool call is answered exactly once, in the order of the calls,
 * right after the message that made it, also when its result came late, out of order or never (T15).
 */
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { Card, CardContents, ProposedCall } from '../../workflows/protocol/cards.ts';
import type { Deliverable } from '../../workflows/protocol/turn.ts';

type Result = CardContents['tool.result'];

/** Providers refuse messages without a text. */
const BLANK_REQUEST = '(a blank request)';

const saying = (agentTurnId: string | null, text: string | undefined): string => JSON.stringify([agentTurnId, text]);

export function toMessages(cards: readonly Card[]): ChatCompletionMessageParam[] {
  const results = new Map(
    cards.flatMap((card) => (card.type === 'tool.result' ? [[card.content.callId, card.content]] : [])),
  );
  const spoken = new Set(
    cards.flatMap((card) => (card.type === 'agent.thought' ? [saying(card.agentTurnId, card.content.text)] : [])),
  );
  const submitted = new Set(cards.flatMap((card) => (card.type === 'tool.result' ? [card.agentTurnId] : [])));
  const present = new Set(
    cards.flatMap((card) =>
      card.type === 'task.instruction' || card.type === 'agent.thought' ? [card.agentTurnId] : [],
    ),
  );
  const project = (card: Card): ChatCompletionMessageParam[] => {
    switch (card.type) {
      case 'task.instruction':
        return [{ role: 'user', content: card.content.text.trim() === '' ? BLANK_REQUEST : card.content.text }];
      case 'context.note':
        return card.content.text.trim() === '' ? [] : [{ role: 'user', content: card.content.text }];
      case 'agent.thought':
        return thoughtMessages(card.content, results);
      case 'task.deliverable':
        return deliverableMessages(
          card.content,
          spoken.has(saying(card.agentTurnId, card.content.text)),
          submitted.has(card.agentTurnId),
          present.has(card.agentTurnId),
        );
      case 'sys.must_end_with_required':
      case 'sys.final_report':
      case 'sys.rolled_back':
      case 'sys.go_on':
        return [{ role: 'system', content: card.content.text }];
      case 'tool.call':
      case 'tool.result':
      case 'tool.output':
        return [];
    }
  };
  return cards.flatMap(project);
}

function thoughtMessages(
  { text, toolCalls }: CardContents['agent.thought'],
  results: ReadonlyMap<string, Result>,
): ChatCompletionMessageParam[] {
  if (toolCalls.length === 0) return text.trim() === '' ? [] : [{ role: 'assistant', content: text }];
  const assistant: ChatCompletionMessageParam = {
    role: 'assistant',
    content: text === '' ? null : text,
    tool_calls: toolCalls.map((call) => ({
      id: call.providerCallId,
      type: 'function',
      function: { name: call.name, arguments: call.arguments },
    })),
  };
  return [assistant, ...toolCalls.map((call) => toolMessage(call, results.get(call.callId)))];
}

const NO_RESULT = { code: 'canceled', message: 'the turn ended before this call had a result' };

function toolMessage(call: ProposedCall, result: Result | undefined): ChatCompletionMessageParam {
  const content = result?.status === 'success' ? stringify(result.result ?? null) : stringify(failureBody(result));
  return { role: 'tool', tool_call_id: call.providerCallId, content };
}

const failureBody = (result: Result | undefined) =>
  result === undefined
    ? { error: NO_RESULT }
    : { error: result.error, status: result.status, ...(result.result === undefined ? {} : { result: result.result }) };

const stringify = (value: unknown): string =>
  typeof value === 'string' && value !== '' ? value : JSON.stringify(value);

/**
 * Left out when a thought already says it, when the submitted fields stand in the call that made them, or when nothing else of its turn
 * is in view: a queued turn that was cancelled has no place in the conversation.
 */
function deliverableMessages(
  { text, fields, fallback }: Deliverable,
  spoken: boolean,
  submitted: boolean,
  present: boolean,
): ChatCompletionMessageParam[] {
  if (fallback && !present) return [];
  if (fallback) return [{ role: 'assistant', content: `(this turn ended without an answer: ${fallback.reason})` }];
  if (text !== undefined) return spoken || text.trim() === '' ? [] : [{ role: 'assistant', content: text }];
  return submitted ? [] : [{ role: 'assistant', content: JSON.stringify(fields) }];
}
