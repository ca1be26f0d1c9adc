/** What a webhook is told of an event: ids, what happened, until when; never what agents and models said. */
import type { TopicEvent } from '../../workflows/contract/webhooks.ts';
import { shownTime } from '../../workflows/protocol/time.ts';
import type { Webhook } from './webhook.ts';

/** What of an event's payload is told. Reasons and errors of tools and models may quote what is nobody's business outside. */
const SAID = ['status', 'errorCode', 'callId', 'tool', 'phase', 'deadline'] as const;

/** A message as it is sent. */
interface WebhookMessage {
  readonly type: TopicEvent['topic'];
  /** When it happened, ISO 8601. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** The same as a sentence for people. */
  readonly text: string;
}

/** The body that tells of an event. */
export function messageBody({ format }: Pick<Webhook, 'format'>, event: TopicEvent): string {
  const { text, ...message } = messageOf(event);
  return JSON.stringify(format === 'slack' ? { text: slackText(text) } : { ...message, text });
}

/** The text as Slack shows it: what it would take for a link or a mention is text. docs.slack.dev/messaging/formatting-message-text */
const slackText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function messageOf(event: TopicEvent): WebhookMessage {
  const { topic, agentId, agentTurnId, seq, createdAt } = event;
  const payload = event.payload as Readonly<Record<string, unknown>>;
  const said = Object.fromEntries(SAID.flatMap((name) => (payload[name] === undefined ? [] : [[name, payload[name]]])));
  return {
    type: topic,
    timestamp: new Date(createdAt).toISOString(),
    data: { agentId, agentTurnId, seq, ...said },
    text: sentenceOf(event, payload),
  };
}

function sentenceOf({ topic, agentId, agentTurnId }: TopicEvent, payload: Readonly<Record<string, unknown>>): string {
  const { status, errorCode, tool, deadline } = payload;
  const until = typeof deadline === 'number' ? `, until ${shownTime(deadline)}` : '';
  const turn = `(turn ${agentTurnId})`;
  switch (topic) {
    case 'turn.ended':
      return `${agentId}: ended, ${status}${errorCode ? `: ${errorCode}` : ''} ${turn}`;
    case 'approval.asked':
      return `${agentId}: ${tool} needs approval${until} ${turn}`;
    case 'budget.asked':
      return `${agentId}: a budget is used up, and somebody is asked for more${until} ${turn}`;
    case 'call.waiting':
      return `${agentId}: ${tool} waits for a result${until} ${turn}`;
  }
}
