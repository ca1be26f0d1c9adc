/** One agent, live: what it is at, what it waits for, its turns, and what an operator may do. */
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import type { TurnSummary } from '../../../workflows/contract/lists.ts';
import { Children, facts, fill, make, titled } from './dom.ts';
import { type GatewayCalls, RefusedError } from './gateway.ts';
import { answerForm, controls, requestForm } from './operate.ts';
import { rowTable, TURN_HEADS, turnRow } from './overview.ts';
import { summaryParts } from './summary.ts';
import { type PageView, poll } from './view.ts';

/** How often it is read although no event of it came: an agent without a turn is stopped and started without one. */
const POLL_MS = 2_000;
/** Events that come so close together are answered by one reading. */
const TOGETHER_MS = 150;

/** The view of an agent. */
export function agentView(calls: GatewayCalls, agentId: string): PageView {
  const path = `agents/${encodeURIComponent(agentId)}`;
  const operated = { calls, path, changed: () => refresh.now() };
  const none = facts();
  const summary = summaryParts(calls.caller.webUi);
  const request = calls.may('write') ? requestForm(operated) : null;
  const answer = calls.may('write') ? answerForm(operated) : null;
  const control = calls.may('operate') ? controls(operated) : null;
  const turns = rowTable('Turns', TURN_HEADS);
  const rows = new Children<TurnSummary>(turns.body, ({ agentTurnId }) => agentTurnId, turnRow);
  const gone = new AbortController();
  let listener: (error: unknown) => void = () => {};
  let isFollowed = false;
  const refresh = poll(POLL_MS, async (signal) => {
    const [agent, page] = await Promise.all([
      calls.get<AgentSummary>(path, signal).catch(unlessNone),
      calls.get<{ readonly items: readonly TurnSummary[] }>(
        `turns?agentId=${encodeURIComponent(agentId)}&limit=30`,
        signal,
      ),
    ]);
    // Its first request makes it.
    if (agent === null) return fill(none, 'This agent has had no request yet.');
    fill(none);
    for (const part of [summary, answer, control]) part?.show(agent);
    if (request) request.hidden = !agent.lifecycle.acceptsExternalMessages;
    rows.show(page.items);
    if (isFollowed) return;
    isFollowed = true;
    follow(agent.agent.eventSeq).catch((error: unknown) => listener(error));
  });
  const follow = async (seq: number) => {
    const lost = (isLost: boolean) => listener(isLost ? new Error('the stream broke; it is opened again') : null);
    let timer = 0;
    for await (const _ of calls.events(`${path}/events?afterSeq=${seq}`, gone.signal, lost)) {
      clearTimeout(timer);
      timer = setTimeout(() => refresh.now(), TOGETHER_MS);
    }
  };
  const standing = [summary.posture, answer?.element ?? null, ...summary.figures];
  const operate = [control?.element ?? null, request];
  const element = make(
    'div',
    {},
    make('h2', {}, 'Agent ', agentId),
    facts(make('a', { href: `#/chats/${encodeURIComponent(agentId)}` }, 'Chats with it')),
    none,
    make(
      'div',
      { class: 'columns agent' },
      make('div', {}, ...standing),
      make('div', {}, ...summary.work, titled('turns', 'Turns', turns.element)),
      make('div', {}, ...operate),
    ),
  );
  return {
    title: `Agent ${agentId}`,
    element,
    close() {
      gone.abort();
      refresh.close();
    },
    failed(callback) {
      listener = callback;
      refresh.failed(callback);
    },
  };
}

/** Null for an agent that is not there. */
function unlessNone(error: unknown): null {
  if (error instanceof RefusedError && error.status === 404) return null;
  throw error;
}
