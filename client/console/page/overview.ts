/** All agents, what waits for people, and the turns of late. */

import type { InboxEntry, Spending, TurnSummary } from '../../../workflows/contract/lists.ts';
import type { AgentView } from '../../../workflows/contract/views.ts';
import { Children, type Content, facts, fill, make, titled } from './dom.ts';
import { agentLink, badge, count, money, ticking, turnLink } from './format.ts';
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
  const asked = turnLink(turn.agentTurnId, '');
  const element = make(
    'tr',
    {},
    make('td', { class: 'wide' }, asked),
    status,
    make('td', { class: 'wide' }, agentLink(turn.agentId)),
    steps,
    cost,
    make('td', {}, ticking('since', turn.acceptedAt)),
  );
  const update = (now: Pick<TurnSummary, 'status' | 'errorCode' | 'asked' | 'stepCount' | 'cost'>) => {
    if (status.textContent !== now.status) fill(status, badge(now.status));
    status.title = now.errorCode ?? '';
    fill(asked, now.asked === '' ? turn.agentTurnId : now.asked);
    asked.title = asked.textContent ?? '';
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

/** All postures, as a filter offers them. */
const POSTURES = [
  'active_turn',
  'has_queued_input',
  'has_runnable_work',
  'waiting_for_operator',
  'waiting_for_task',
  'waiting_for_external',
  'blocked',
  'idle',
  'archived',
  'unknown',
] as const satisfies readonly AgentView['posture']['posture'][];

/** What an agent is at, in words: its posture, and what else an operator is to see at once. */
export const postureWords = (posture: string, isStopped: boolean, lacksWorkers: boolean): readonly Content[] => [
  badge(posture),
  isStopped ? ' ' : null,
  isStopped ? badge('stopped') : null,
  lacksWorkers ? ' ' : null,
  lacksWorkers ? badge('no workers') : null,
];

/** The posture of the agents that are listed; it stays when the view is left. */
let wanted = '';
/** Whether one-shot agents are listed whose turn has ended; it stays, too. */
let withOneShot = false;

function agentFilter(changed: () => void): readonly Content[] {
  const choose = (event: Event) => {
    wanted = (event.target as HTMLSelectElement).value;
    changed();
  };
  const options = POSTURES.map((posture) => make('option', { value: posture }, posture.replaceAll('_', ' ')));
  const select = make('select', { id: 'posture', change: choose }, make('option', { value: '' }, 'all'), ...options);
  select.value = wanted;
  const turnOver = (event: Event) => {
    withOneShot = (event.target as HTMLInputElement).checked;
    changed();
  };
  const box = make('input', { id: 'one-shot', type: 'checkbox', change: turnOver });
  box.checked = withOneShot;
  return [
    make('label', { for: 'posture' }, 'Posture'),
    select,
    ' ',
    box,
    ' ',
    make('label', { for: 'one-shot' }, 'with one-shot agents that have ended'),
  ];
}

const agentQuery = (): string => `${wanted === '' ? '' : `&posture=${wanted}`}${withOneShot ? '&oneShot=with' : ''}`;

interface AgentLine extends AgentView {
  readonly cost: number | null;
}

function agentRow(agent: AgentView) {
  const posture = make('td', { class: 'badges' });
  const why = make('td', { class: 'wide' });
  const queue = make('td', { class: 'number' });
  const cost = make('td', { class: 'number' });
  const element = make(
    'tr',
    {},
    make('td', { class: 'wide' }, agentLink(agent.agentId)),
    posture,
    why,
    queue,
    cost,
    make('td', { class: 'cut', title: agent.profile }, agent.profile),
  );
  const update = (now: AgentLine) => {
    const words = postureWords(now.posture.posture, now.lifecycle === 'stopped', now.waitingForWorkers !== null);
    if (posture.textContent !== make('td', {}, ...words).textContent) fill(posture, ...words);
    fill(why, now.posture.reason);
    why.title = now.posture.reason;
    fill(queue, count(now.queuedTurns));
    fill(cost, money(now.cost));
  };
  return { element, update };
}

/** The view of everything. */
export function overview(calls: GatewayCalls): PageView {
  const inbox = make('div', { class: 'questions' });
  const noQuestions = facts('Nothing waits for anybody.');
  const agents = rowTable('Agents', ['Agent', 'Posture', 'Why', 'Queue', 'Cost, 7 days', 'Profile']);
  const turns = rowTable('Turns of late', TURN_HEADS);
  const more = facts();
  const questions = new Children<Question>(inbox, questionKey, (question) =>
    questionForm(calls, question, () => refresh.now()),
  );
  const agentRows = new Children<AgentLine>(agents.body, ({ agentId }) => agentId, agentRow);
  const turnRows = new Children<TurnSummary>(turns.body, ({ agentTurnId }) => agentTurnId, turnRow);
  const refresh = poll(POLL_MS, async (signal) => {
    const since = Date.now() - WEEK_MS;
    const [waiting, listed, late, spent] = await Promise.all([
      calls.get<Page<InboxEntry>>('inbox?limit=50', signal),
      calls.get<Page<AgentView>>(`agents?limit=200${agentQuery()}`, signal),
      calls.get<Page<TurnSummary>>('turns?limit=30', signal),
      calls.get<{ readonly items: readonly Spending[] }>(`spending?by=agent&since=${since}&limit=1000`, signal),
    ]);
    const costs = new Map(spent.items.map(({ of, cost, uncosted }) => [of, uncosted > 0 && cost === 0 ? null : cost]));
    questions.show(waiting.items);
    noQuestions.hidden = waiting.items.length > 0;
    agentRows.show(listed.items.map((agent) => ({ ...agent, cost: costs.get(agent.agentId) ?? null })));
    turnRows.show(late.items);
    const none = wanted === '' ? 'There is no agent to show yet.' : 'No agent is at that.';
    const some = listed.next === null ? '' : 'The first 200 agents are shown; `agentturn agents ls` lists all.';
    fill(more, listed.items.length === 0 ? none : some);
  });
  const element = make(
    'div',
    { class: 'columns' },
    titled('inbox', 'Waits for people', noQuestions, inbox),
    make(
      'div',
      {},
      titled(
        'agents',
        'Agents',
        make('div', { class: 'filter' }, ...agentFilter(() => refresh.now())),
        agents.element,
        more,
      ),
      titled('turns', 'Turns of late', turns.element),
    ),
  );
  return { title: 'Overview', element, close: refresh.close, failed: refresh.failed };
}
