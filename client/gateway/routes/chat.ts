/** Routes of chat front ends: the UI message stream of the AI SDK, as `useChat` sends and takes it. */
import { z } from '@hono/zod-openapi';
import { QUEUE_POLICIES } from '../../../workflows/protocol/chat.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { AgentHandle, TurnHandle } from '../../api.ts';
import type { ChatHandle } from '../../chat/api.ts';
import { checkCursor } from '../../turn-stream.ts';
import type { Caller } from '../caller.ts';
import { type CallState, type MessageStart, UiMessage } from '../chat/chunks.ts';
import { chatAgentParams, chatParams } from '../chat-schemas.ts';
import type { ServerSentEvent, StreamEnding } from '../event-stream.ts';
import { type AnyRoute, type GatewayContext, route } from '../route.ts';
import { callerAsSender, chatOf } from './chats.ts';

const approvalSchema = z.looseObject({ approved: z.boolean().optional(), reason: z.string().max(1_000).optional() });

/** A part of a message: a text, a call with its state, or what a front end keeps beside them. */
const partSchema = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  toolCallId: z.string().max(128).optional(),
  state: z.string().optional(),
  approval: approvalSchema.optional(),
});

const messageSchema = z.looseObject({
  id: z.string().min(1).max(200),
  role: z.enum(['system', 'user', 'assistant']),
  parts: z.array(partSchema).max(10_000),
  metadata: z
    .looseObject({ cursor: z.string().max(200).optional() })
    .optional()
    .catch(undefined),
});
type Message = z.output<typeof messageSchema>;

/** What `DefaultChatTransport` sends; only the last message counts, because the agent remembers the others. */
const chatBody = z
  .looseObject({
    id: chatParams.shape.chatId,
    messages: z.array(z.unknown()).min(1),
    trigger: z.enum(['submit-message', 'regenerate-message']).default('submit-message'),
    profile: z.string().optional(),
    policy: z.enum(QUEUE_POLICIES).optional(),
  })
  .openapi('ChatRequest');

/** The ends of a UI message stream. */
const ENDING: StreamEnding = {
  done: 'data: [DONE]\n\n',
  failure: ({ code, detail }) => `data: ${JSON.stringify({ type: 'error', errorText: `${code}: ${detail}` })}\n\n`,
  headers: { 'x-vercel-ai-ui-message-stream': 'v1' },
};

const chat = route({
  method: 'post',
  path: '/v1/agents/{agentId}/chat',
  scope: 'write',
  summary: 'One message of a chat, or answers to approvals, and its turn as chunks of a UI message (useChat).',
  params: chatAgentParams,
  body: chatBody,
  result: 'events',
  async handle(context, { caller, params: { agentId }, body }) {
    const { id: chatId, policy, profile, trigger } = body;
    const chat = chatOf(context, { agentId, chatId }, profile === undefined ? {} : { profile });
    const last = messageSchema.safeParse(body.messages.at(-1));
    if (!last.success) throw new CodedError('invalid_request', `the last message: ${z.prettifyError(last.error)}`);
    const message = last.data;
    if (message.role === 'assistant') return answered(context, caller, chat, message);
    if (message.role === 'system') throw new CodedError('invalid_request', 'the last message must be of the user');
    const { turn } = await chat.send(textOf(message), {
      sender: callerAsSender(caller),
      correlationId: chatId,
      ...(policy === undefined ? {} : { policy }),
      // The same message asked again on purpose is another one.
      ...(trigger === 'submit-message' ? { key: `chat/${message.id}` } : {}),
    });
    if (turn) return messageOf(context, caller, turn, { agentId: chat.agent.id, agentTurnId: turn.id });
    throw new CodedError('agent_busy', `a turn of chat ${chatId} is open, and the message was not to wait for its end`);
  },
});

/** Errors: `invalid_request` for a message without text, or with something else. */
function textOf({ parts }: Message): string {
  const other = parts.find(({ type }) => type === 'file');
  if (other) throw new CodedError('invalid_request', 'files are not taken: write what they say, or send text');
  const texts = parts.flatMap(({ type, text }) => (type === 'text' && text ? [text] : []));
  if (texts.length > 0) return texts.join('\n');
  throw new CodedError('invalid_request', 'the last message has no text: send one with a part {"type":"text"}');
}

const OVER: readonly string[] = ['output-available', 'output-error', 'output-denied'];

/** The message of the assistant goes on behind the answers that it holds. */
async function answered(
  context: GatewayContext,
  caller: Caller,
  { chatId, agent }: ChatHandle,
  { id: agentTurnId, parts, metadata }: Message,
): Promise<Response> {
  const agentId = agent.id;
  if ((await context.store.getTurn(agentTurnId))?.agentId !== agentId)
    throw new CodedError('turn_not_found', `chat ${chatId} has no turn ${agentTurnId}`);
  const answers = parts.filter(({ state, approval }) => state === 'approval-responded' && approval !== undefined);
  const cursor = metadata?.cursor;
  if (answers.length === 0 || cursor === undefined) {
    const expected = 'a message of the user, or one with answered approvals and the metadata that came with it';
    throw new CodedError('invalid_request', `the last message must be ${expected}`);
  }
  if (!caller.may('approve'))
    throw new CodedError('permission_denied', `the token of ${caller.name} has no scope approve; use one that has it`);
  await checkCursor(context.store, { agentId, agentTurnId, cursor });
  const turn = context.client.turn(agentTurnId);
  for (const { toolCallId: callId = '', approval } of answers) {
    const decision = approval?.approved === true ? 'approved' : 'denied';
    const reason = approval?.reason === undefined ? {} : { reason: approval.reason };
    await turn.answer({ callId, decision, by: caller.name, ...reason });
  }
  const calls = new Map(
    parts.flatMap(({ toolCallId, state = '' }): [string, CallState][] => {
      if (toolCallId === undefined) return [];
      return [[toolCallId, OVER.includes(state) ? 'over' : state === 'approval-requested' ? 'asked' : 'running']];
    }),
  );
  return messageOf(context, caller, turn, { agentId, agentTurnId, calls }, cursor);
}

const resume = route({
  method: 'get',
  path: '/v1/agents/{agentId}/chat/{chatId}/stream',
  scope: 'read',
  summary:
    "The message that is being written in a chat, from its beginning; 204 when there is none (useChat's resume).",
  params: chatParams,
  result: 'events',
  also: { status: 204, description: 'No turn of this chat is open.' },
  async handle(context, { caller, params }) {
    const { agent } = chatOf(context, params);
    const agentTurnId = await openTurnOf(context, agent);
    if (agentTurnId === null) return new Response(null, { status: 204 });
    return messageOf(context, caller, context.client.turn(agentTurnId), { agentId: agent.id, agentTurnId });
  },
});

/** The open turn of an agent, else the first one that waits; null where there is none. */
async function openTurnOf({ store }: GatewayContext, agent: AgentHandle): Promise<string | null> {
  const active = (await store.getAgent(agent.id))?.activeAgentTurnId ?? null;
  return active ?? (await agent.turns({ status: 'queued', limit: 1 }))[0]?.agentTurnId ?? null;
}

const messageOf = (
  context: GatewayContext,
  caller: Caller,
  turn: TurnHandle,
  start: MessageStart,
  cursor?: string,
): Response =>
  context.stream(caller, (signal) => chunksOf(turn, start, { signal, ...(cursor ? { cursor } : {}) }), ENDING);

async function* chunksOf(
  turn: TurnHandle,
  start: MessageStart,
  options: { readonly signal: AbortSignal; readonly cursor?: string },
): AsyncGenerator<ServerSentEvent, void> {
  const message = new UiMessage(start);
  const event = (id: string, data: unknown): ServerSentEvent => ({ id, event: 'message', data });
  yield event(options.cursor ?? '0', message.start());
  for await (const part of turn.stream(options)) {
    for (const chunk of message.take(part)) yield event(part.cursor, chunk);
    const last = message.pause(part.cursor);
    for (const chunk of last) yield event(part.cursor, chunk);
    if (last.length > 0) return;
  }
}

/** The routes of chats. */
export const CHAT_ROUTES: readonly AnyRoute[] = [chat, resume];
