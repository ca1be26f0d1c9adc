/** What a person can ask about a chat: what it is at, what waits, what it cost, and with whom else one can chat. */
import type { MessageView } from '../../../workflows/contract/chat.ts';
import type { QueuePolicy } from '../../../workflows/protocol/chat.ts';
import { addUsage, isTerminal, type Usage } from '../../../workflows/protocol/turn.ts';
import type { ChatHandle } from '../../chat/api.ts';
import type { ClientApi } from '../../client-api.ts';
import { postureText } from '../agent-page.ts';
import { counted, duration, shortened, table, time } from '../format.ts';
import { currentStall } from '../watch.ts';
import { spentText, turnFailureLines } from './endings.ts';

/** The chat that is asked about. */
export interface FactsOf {
  readonly client: ClientApi;
  readonly chat: ChatHandle;
  /** The turn that is at work, else the last one; null when there was none. */
  readonly turn: string | null;
}

/** A fact with what it is about. */
export type Fact = readonly [about: string, text: string];

/** How many messages, or chats, are listed. */
const MOST_LISTED = 20;
const MESSAGES_READ = 100;
const TEXT_CHARACTERS = 60;
const NO_USAGE: Usage = { input: 0, output: 0, cached: 0 };

/** `/status`. Errors: those of the client. */
export async function statusFacts({ client, chat, turn }: FactsOf): Promise<readonly Fact[]> {
  const [session, summary, waiting] = await Promise.all([chat.get(), chat.agent.get(), waitingMessages(chat)]);
  if (!session || !summary) return [['chat', 'nothing was said in it yet']];
  const active = summary.agent.currentTurn?.agentTurnId ?? null;
  const { sessionId, agentId } = session;
  return [
    ['chat', `${session.chatId} with ${session.of}`],
    ['session', sessionId === agentId ? agentId : `${sessionId}, agent ${agentId}`],
    ['messages', `${session.lastSeq}, ${waiting.length} waiting; the last at ${time(session.updatedAt)}`],
    ...(active === null
      ? [['agent', postureText(summary.schedulingPosture)] as const, await lastTurnFact(client, turn)]
      : await activeTurnFacts(client, active)),
  ];
}

async function lastTurnFact(client: ClientApi, turn: string | null): Promise<Fact> {
  if (turn === null) return ['turn', 'none is at work'];
  const view = await client.turn(turn).get();
  const [failure] = turnFailureLines(view);
  return ['turn', `none is at work; the last one, ${turn}: ${failure ?? view.status}`];
}

async function activeTurnFacts(client: ClientApi, turn: string): Promise<readonly Fact[]> {
  const handle = client.turn(turn);
  const [view, stall] = await Promise.all([handle.get(), currentStall(handle)]);
  const since = duration(Math.max(0, Date.now() - (view.leasedAt ?? view.acceptedAt)));
  const waits = view.waiting.map(
    ({ kind, tool, deadline }): Fact => [
      'waits for',
      `${kind === 'approval' ? `approval of ${tool || 'a larger budget'}` : `the result of ${tool}`} until ${time(deadline)}`,
    ],
  );
  return [
    ['turn', `${turn}: ${view.status} for ${since}, ${counted(view.stepCount, 'step')}, ${spentText(view)}`],
    ...waits,
    ...(stall.whole === null ? [] : [['stalled', stall.whole] as const]),
  ];
}

/** `/queue`: what waits, with its status, and what becomes of messages that are written meanwhile. Errors: those of the client. */
export async function queueLines(
  { chat }: Pick<FactsOf, 'chat'>,
  policy: QueuePolicy | undefined,
): Promise<readonly string[]> {
  const waiting = await waitingMessages(chat);
  const rule = `messages while a turn is at work: ${policy ?? 'as the profile says (collect, unless it says otherwise)'}`;
  if (waiting.length === 0) return ['nothing waits', rule];
  return [...table(waiting.map(messageRow)), rule];
}

const messageRow = ({ seq, status, sender, payload }: MessageView): string[] => [
  String(seq),
  status,
  sender.agentId,
  shortened(payload.text, TEXT_CHARACTERS),
];

const WAITING: ReadonlySet<string> = new Set(['queued', 'collected', 'steered']);

async function waitingMessages(chat: ChatHandle): Promise<readonly MessageView[]> {
  const last = await chat.messages({ last: MESSAGES_READ });
  return last.filter(({ status }) => WAITING.has(status));
}

/** `/cost`: of the last turn, and of the chat. Errors: those of the client. */
export async function costFacts({ client, chat, turn }: FactsOf): Promise<readonly Fact[]> {
  let usage = NO_USAGE;
  let cost: number | null = 0;
  let turns = 0;
  for await (const each of client.turns({ agentId: chat.agent.id })) {
    turns += 1;
    usage = addUsage(usage, each.usage);
    // A turn that has not had a step has cost nothing.
    if (each.stepCount > 0) cost = cost === null || each.cost === null ? null : cost + each.cost;
  }
  if (turns === 0) return [['chat', 'nothing was spent yet']];
  const last = turn === null ? null : await client.turn(turn).get();
  const spent: Fact = [
    'chat',
    `${spentText({ usage, cost })}, ${counted(turns, 'turn')}${cost === null ? '; no price is known' : ''}`,
  ];
  return last === null ? [spent] : [[isTerminal(last.status) ? 'last turn' : 'this turn', spentText(last)], spent];
}

/** `/agents`: the agents that apps have registered, and the chats there are. Errors: those of the client. */
export async function agentLines(client: ClientApi, profiles: readonly string[]): Promise<readonly string[]> {
  const rows: string[][] = [];
  let more = false;
  for await (const session of client.chats()) {
    more = rows.length === MOST_LISTED;
    if (more) break;
    rows.push([session.of, session.chatId, counted(session.lastSeq, 'message'), `last at ${time(session.updatedAt)}`]);
  }
  return [
    `agents: ${profiles.length === 0 ? 'no app has registered any' : profiles.join(', ')}`,
    ...(rows.length === 0 ? ['no chats yet'] : ['chats:', ...table(rows).map((line) => `  ${line}`)]),
    ...(more ? ['  and more'] : []),
  ];
}
