/** What an agent is at, part by part: posture and why, how its last turn left it, its work, and what it waits for. */
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import { type Content, facts, figure, make, Part } from './dom.ts';
import { agentLink, badge, count, money, span, ticking, turnLink } from './format.ts';
import { postureWords } from './overview.ts';

type Item<Key extends keyof AgentSummary> = AgentSummary[Key] extends readonly (infer Each)[] ? Each : never;

/** The parts of a view that show a summary. */
export interface SummaryParts {
  /** What it is at, and what is to be done about it. */
  readonly posture: HTMLElement;
  /** Figures, and how its last turn left it. */
  readonly figures: readonly HTMLElement[];
  /** What it has between its turns. */
  readonly work: readonly HTMLElement[];
  show(summary: AgentSummary): void;
}

/** Makes the parts; `webUi` is where Temporal's Web UI lists workflows. */
export function summaryParts(webUi: string | null): SummaryParts {
  const posture = new Part<AtNow>('', postureOf);
  posture.element.setAttribute('role', 'status');
  const figures = new Part<Figures>('', (summary) => [make('dl', { class: 'figures' }, ...figuresOf(summary, webUi))]);
  const closure = new Part('How its last turn left it', closureOf);
  const items = new Part('Work items', listOf<Item<'workItems'>>(workItem));
  const waits = new Part('Waits', listOf<Item<'activeWaits'>>(waitItem));
  const timers = new Part('Timers', listOf<Item<'activeTimers'>>(timerItem));
  const triggers = new Part('Triggers', listOf<Item<'activeExternalTriggers'>>(triggerItem));
  const children = new Part('Delegated turns', listOf<Item<'activeChildren'>>(childItem));
  return {
    posture: posture.element,
    figures: [figures.element, closure.element],
    work: [items, waits, children, timers, triggers].map(({ element }) => element),
    show(summary) {
      const { identity, agent, model, execution, schedulingPosture, lifecycle } = summary;
      posture.show({ schedulingPosture, lifecycle, lacksWorkers: agent.head.waitingForWorkers !== null });
      figures.show({ identity, agent, model, execution });
      closure.show(summary.closure);
      items.show(summary.workItems);
      waits.show(summary.activeWaits);
      timers.show(summary.activeTimers);
      triggers.show(summary.activeExternalTriggers);
      children.show(summary.activeChildren);
    },
  };
}

const listOf =
  <Each>(item: (each: Each) => Content) =>
  (list: readonly Each[]): readonly Content[] =>
    list.length === 0 ? [] : [make('ul', { class: 'items' }, ...list.map(item))];

type Figures = Pick<AgentSummary, 'identity' | 'agent' | 'model' | 'execution'>;
type AtNow = Pick<AgentSummary, 'schedulingPosture' | 'lifecycle'> & { readonly lacksWorkers: boolean };

/** Where the id of a work item or a wait stands on the page. */
const placeOf = (id: string) => `at-${id}`;

/** A link to where an id stands on the page. */
const here = (id: string, text: string): Content =>
  make(
    'a',
    {
      href: location.hash,
      title: id,
      click: (event) => {
        event.preventDefault();
        document.getElementById(placeOf(id))?.focus();
      },
    },
    text,
  );

const words = (text: string): string => text.replaceAll('_', ' ');

function postureOf({ schedulingPosture, lifecycle, lacksWorkers }: AtNow): readonly Content[] {
  const { posture, reason, agentTurnId, workItemId, waitId, taskId } = schedulingPosture;
  const { operatorHint, acceptsExternalMessages } = lifecycle;
  const ids = [
    agentTurnId === undefined ? null : turnLink(agentTurnId, 'its turn'),
    workItemId === undefined ? null : here(workItemId, 'the work item'),
    waitId === undefined ? null : here(waitId, 'the wait'),
    taskId === undefined ? null : turnLink(taskId, 'the delegated turn'),
  ].filter((link) => link !== null);
  return [
    make(
      'p',
      { class: 'posture' },
      ...postureWords(posture, !acceptsExternalMessages, lacksWorkers),
      ' ',
      reason,
      ...ids.flatMap((link) => [' · ', link]),
    ),
    operatorHint === null ? null : make('p', { class: 'hint' }, `Hint: ${operatorHint}`),
  ];
}

function figuresOf({ identity, agent, model, execution }: Figures, webUi: string | null): readonly Content[] {
  const { usage, cost, name } = model;
  const about = usage.estimated ? '~' : '';
  return [
    figure('Status', words(agent.status)),
    figure('Profile', identity.profile),
    name === null ? null : figure('Model', name),
    figure('Tokens', `${about}${count(usage.input)} in, ${about}${count(usage.output)} out`),
    figure('Cost', money(cost)),
    figure('Turns', count(agent.turnIndex)),
    figure('Queued', count(agent.pending)),
    agent.came === 0 ? null : figure('Has come for it', count(agent.came)),
    agent.autonomousTurns === 0 ? null : figure('Turns by itself', count(agent.autonomousTurns)),
    identity.parentAgentId === null ? null : figure('Child of', agentLink(identity.parentAgentId)),
    agent.currentTurn === null
      ? null
      : figure('Open turn', turnLink(agent.currentTurn.agentTurnId, words(agent.currentTurn.status))),
    agent.head.waitingForWorkers ? figure('Waits for workers', agent.head.waitingForWorkers.workerTarget) : null,
    webUi === null || execution.workflowId === null
      ? null
      : figure(
          'Temporal',
          make(
            'a',
            {
              href: `${webUi}/${encodeURIComponent(execution.workflowId)}`,
              target: '_blank',
              rel: 'noopener noreferrer',
            },
            'Web UI',
          ),
        ),
  ];
}

function closureOf(closure: AgentSummary['closure']): readonly Content[] {
  if (closure === null) return [];
  const { outcome, waitingReason, runtimePosture, evidence } = closure;
  return [
    make('p', {}, badge(outcome), waitingReason ? ` ${words(waitingReason)}` : null, ` · ${runtimePosture}`),
    make('ul', { class: 'facts' }, ...evidence.map((each) => make('li', {}, each))),
  ];
}

function workItem(item: Item<'workItems'>): Content {
  const { workItemId, objective, schedulingState, current, planStatus, todoList, blockedBy, waitId, recheckAt } = item;
  const done = todoList.filter(({ state }) => state === 'completed').length;
  return make(
    'li',
    { id: placeOf(workItemId), tabindex: '-1', class: current ? 'current' : undefined },
    make('p', {}, badge(schedulingState), current ? ' ' : null, current ? badge('current') : null, ' ', objective),
    facts(
      `plan: ${words(planStatus)}`,
      ...blockedBy.flatMap((id, place) => [place === 0 ? ' · blocked by ' : ', ', here(id, id)]),
      waitId === null ? null : ' · ',
      waitId === null ? null : here(waitId, 'its wait'),
      ...(recheckAt === null ? [] : [' · looks again ', ticking('in', recheckAt)]),
    ),
    todoList.length === 0
      ? null
      : make(
          'details',
          { open: '' },
          make('summary', {}, `Todo: ${done} of ${todoList.length} done`),
          make('ul', {}, ...todoList.map(({ text, state }) => make('li', {}, badge(state), ' ', text))),
        ),
  );
}

function waitItem(wait: Item<'activeWaits'>): Content {
  const { waitId, kind, reason, workItemId, resource, deadline, recheckAt, createdAt, agentTurnId } = wait;
  return make(
    'li',
    { id: placeOf(waitId), tabindex: '-1' },
    make('p', {}, badge(`for ${kind}`), ' ', reason),
    facts(
      ticking('until', deadline),
      ...(recheckAt === null ? [] : [' · looks again ', ticking('in', recheckAt)]),
      ' · since ',
      turnLink(agentTurnId, 'its turn'),
      ' ',
      ticking('since', createdAt),
      workItemId === null ? null : ' · of ',
      workItemId === null ? null : here(workItemId, 'its work item'),
      resource === null ? null : ' · ',
      resource === null ? null : kind === 'task' ? turnLink(resource, 'the delegated turn') : resource,
    ),
  );
}

const timerItem = ({ reason, nextAt, everyMs }: Item<'activeTimers'>): Content =>
  make(
    'li',
    {},
    make('p', {}, reason),
    facts(ticking('in', nextAt), everyMs === null ? ' · once' : ` · every ${span(everyMs)}`),
  );

const triggerItem = ({ triggerId, name, hits, lastHitAt }: Item<'activeExternalTriggers'>): Content =>
  make(
    'li',
    {},
    make('p', {}, name),
    facts(
      `${triggerId} · ${count(hits)} ${hits === 1 ? 'hit' : 'hits'}`,
      ...(lastHitAt === null ? [' · never hit'] : [' · last ', ticking('since', lastHitAt)]),
    ),
  );

const childItem = ({ agentId, agentTurnId, status, agentStatus }: Item<'activeChildren'>): Content =>
  make(
    'li',
    {},
    make('p', {}, turnLink(agentTurnId, 'turn'), ' ', badge(status), ' of ', agentLink(agentId)),
    facts(`the agent is ${words(agentStatus)}`),
  );
