/** All agents, what waits for people, and the turns of late. */
import type { InboxEntry, Spending, TurnSummary } from '../../../workflows/contract/lists.ts';
import type { AgentView } from '../../../workflows/contract/views.ts';
import { Children, fill, make } from './dom.ts';
import { badge, count, money, ticking } from './format.ts';
import type { GatewayCalls } from './gateway.ts';
import { type Question, questionForm, questionKey } from './questions.ts';
import { type PageView, poll } from './view.ts';

const POLL_MS = 2_000;
const WEEK_MS = 7 * 24 * 3_600_000;

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

/** A turn in a list. */
export function turnRow(turn: Pick<TurnSummary, 'agentTurnId' | 'agentId' | 'acceptedAt'>) {
  const status = make('td');
  const steps = make('td', { class: 'number' });
  const cost = make('td', { class: 'number' });
  const asked = make('a', { href: `#/turns/${encodeURIComponent(turn.agentTurnId)}` });
  const element = make(
    'tr',
    {},
    make('td', { class: 'wide' }, asked),
    status,
    make('td', {}, make('a', { href: `#/agents/${encodeURIComponent(turn.agentId)}` }, turn.agentId)),
    steps,
    cost,
    make('td', {}, ticking('since', turn.acceptedAt)),
  );
  const update = (now: Pick<TurnSummary, 'status' | 'errorCode' | 'asked' | 'stepCount' | 'cost'>) => {
    if (status.textContent !== now.status) fill(status, badge(now.status));
    status.title = now.errorCode ?? '';
    fill(asked, now.asked === '' ? turn.agentTurnId : now.asked);
    fill(steps, count(now.stepCount));
    fill(cost, money(now.cost));
  };
  return { element, update };
}

/** A table whose rows are shown later. */
export function rowTable(label: string, heads: readonly string[]) {
  const body = make('tbody');
  const head = make('thead', {}, make('tr', {}, ...heads.map((name) => make('th', { scope: 'col' }, name))));
  const element = make(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
    make('table', {}, head, body),
  );
  return { element, body };
}

/** The heads of a table of turns. */
export const TURN_HEADS = ['Asked', 'Status', 'Agent', 'Steps', 'Cost', 'When'];

/** Where an agent stands, in one word. */
export const postureWord = ({
  lifecycle,
  status,
  waitingForWorkers,
}: Pick<AgentView, 'lifecycle' | 'status' | 'waitingForWorkers'>): string =>
  lifecycle === 'stopped' ? 'stopped' : waitingForWorkers ? 'no workers' : status;

interface AgentLine extends AgentView {
  readonly cost: number | null;
}

function agentRow(agent: AgentView) {
  const posture = make('td');
  const queue = make('td', { class: 'number' });
  const cost = make('td', { class: 'number' });
  const element = make(
    'tr',
    {},
    make('td', { class: 'wide' }, make('a', { href: `#/agents/${encodeURIComponent(agent.agentId)}` }, agent.agentId)),
    posture,
    queue,
    cost,
    make('td', {}, agent.profile ?? '–'),
  );
  const update = (now: AgentLine) => {
    const word = postureWord(now);
    if (posture.textContent !== word) fill(posture, badge(word));
    fill(queue, count(now.queuedTurns));
    fill(cost, money(now.cost));
  };
  return { element, update };
}

/** The view of everything. */
export function overview(calls: GatewayCalls): PageView {
  const inbox = make('div', { class: 'questions' });
  const noQuestions = make('p', { class: 'facts' }, 'Nothing waits for anybody.');
  const agents = rowTable('Agents', ['Agent', 'Posture', 'Queue', 'Cost, 7 days', 'Profile']);
  const turns = rowTable('Turns of late', TURN_HEADS);
  const more = make('p', { class: 'facts' });
  const questions = new Children<Question>(inbox, questionKey, (question) =>
    questionForm(calls, question, () => refresh.now()),
  );
  const agentRows = new Children<AgentLine>(agents.body, ({ agentId }) => agentId, agentRow);
  const turnRows = new Children<TurnSummary>(turns.body, ({ agentTurnId }) => agentTurnId, turnRow);
  const refresh = poll(POLL_MS, async (signal) => {
    const since = Date.now() - WEEK_MS;
    const [waiting, listed, late, spent] = await Promise.all([
      calls.get<Page<InboxEntry>>('inbox?limit=50', signal),
      calls.get<Page<AgentView>>('agents?limit=200', signal),
      calls.get<Page<TurnSummary>>('turns?limit=30', signal),
      calls.get<{ readonly items: readonly Spending[] }>(`spending?by=agent&since=${since}&limit=1000`, signal),
    ]);
    const costs = new Map(spent.items.map(({ of, cost, uncosted }) => [of, uncosted > 0 && cost === 0 ? null : cost]));
    questions.show(waiting.items);
    noQuestions.hidden = waiting.items.length > 0;
    agentRows.show(listed.items.map((agent) => ({ ...agent, cost: costs.get(agent.agentId) ?? null })));
    turnRows.show(late.items);
    fill(more, listed.next === null ? '' : 'The first 200 agents are shown; `agentturn agents ls` lists all.');
  });
  const element = make(
    'div',
    { class: 'columns' },
    make(
      'section',
      { 'aria-labelledby': 'inbox' },
      make('h2', { id: 'inbox' }, 'Waits for people'),
      noQuestions,
      inbox,
    ),
    make(
      'div',
      {},
      make('section', { 'aria-labelledby': 'agents' }, make('h2', { id: 'agents' }, 'Agents'), agents.element, more),
      make('section', { 'aria-labelledby': 'turns' }, make('h2', { id: 'turns' }, 'Turns of late'), turns.element),
    ),
  );
  return { title: 'Overview', element, close: refresh.close, failed: refresh.failed };
}
