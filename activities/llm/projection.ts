/**
 * From cards to the chat messages of a prompt (W19). Pure.
 *
 * Invariant: what comes out is well-formed whatever cards went in: each tool call is answered exactly once, in the order of the calls,
 * right after the message that made it, also when its result came late, out of order or never (T15).
 */
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { Residency } from '../../workflows/kernel/pressure.ts';
import type { Card, CardContents, ThoughtCall } from '../../workflows/protocol/cards.ts';
import type { Deliverable } from '../../workflows/protocol/turn.ts';
import { resultText } from '../result-text.ts';
import { shownResult } from '../spool.ts';

type Result = CardContents['tool.result'];

/** Stands before the text of a summary, so that the model takes it for one. */
export const SUMMARY_HEAD = '[What came before, in short:]';

/** Stands for a request without a text, because providers refuse messages without one. */
const BLANK_REQUEST = '(a blank request)';

/** A card with how much of it is shown; a card without residency is shown whole (K15). */
export type ShownCard = Card & { readonly residency?: Residency };

/** A result with how much of it is shown, in a window of so many tokens. */
interface Shown {
  readonly content: Result;
  readonly residency: Residency;
  readonly windowTokens: number;
}

/** The messages of the cards, in their order. How far results are shortened depends on `windowTokens`, the size of the model's window. */
export function toMessages(cards: readonly ShownCard[], windowTokens: number): ChatCompletionMessageParam[] {
  const results = new Map(
    cards.flatMap((card): [string, Shown][] => {
      if (card.type !== 'tool.result') return [];
      const { content, residency = 'full' } = card;
      return [[content.callId, { content, residency, windowTokens }]];
    }),
  );
  const thoughts = Map.groupBy(
    cards.filter((card) => card.type === 'agent.thought'),
    (card) => card.agentTurnId,
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
      case 'context.summary':
        return [{ role: 'user', content: `${SUMMARY_HEAD}\n${card.content.text}` }];
      case 'context.note':
        return card.content.text.trim() === '' ? [] : [{ role: 'user', content: card.content.text }];
      case 'agent.thought':
        return thoughtMessages(card.content, results);
      case 'task.deliverable':
        return deliverableMessages(
          card.content,
          isSpoken(thoughts.get(card.agentTurnId) ?? [], card.content.text ?? ''),
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

/** Whether one thought says the text, or several in a row do: the parts of an answer that was cut short (K11). */
function isSpoken(thoughts: readonly { readonly content: { readonly text: string } }[], text: string): boolean {
  const texts = thoughts.flatMap(({ content }) => (content.text === '' ? [] : [content.text]));
  return texts.some((_, from) => {
    let said = '';
    for (let index = from; index < texts.length && said !== text && text.startsWith(said); index += 1)
      said += texts[index];
    return said === text;
  });
}

function thoughtMessages(
  { text, toolCalls }: CardContents['agent.thought'],
  results: ReadonlyMap<string, Shown>,
): ChatCompletionMessageParam[] {
  if (toolCalls.length === 0) return text.trim() === '' ? [] : [{ role: 'assistant', content: text }];
  const assistant: ChatCompletionMessageParam = {
    role: 'assistant',
    content: text.trim() === '' ? null : text,
    tool_calls: toolCalls.map((call) => ({
      id: call.providerCallId,
      type: 'function',
      function: { name: call.name, arguments: call.arguments },
    })),
  };
  return [assistant, ...toolCalls.map((call) => toolMessage(call, results.get(call.callId)))];
}

function toolMessage(call: ThoughtCall, shown: Shown | undefined): ChatCompletionMessageParam {
  const text = resultText(shown?.content);
  const content = shown ? shownResult(text, call.callId, shown.residency, shown.windowTokens) : text;
  return { role: 'tool', tool_call_id: call.providerCallId, content };
}

/**
 * No message where thoughts already say the deliverable, where the submitted fields stand in the call that made them, or where nothing else
 * of its turn is in view: a queued turn that was cancelled has no place in the conversation.
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
