/** One turn, live: its steps, what it waits for, its cost, what it delegated, its end. */
import type { ApprovalView } from '../../../workflows/contract/approvals.ts';
import type { TurnNode } from '../../../workflows/contract/call-tree.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import type { StreamPart } from '../../stream-parts.ts';
import { Children, type Content, figure, fill, make } from './dom.ts';
import { agentLink, badge, count, money, pretty, ticking, turnLink } from './format.ts';
import type { GatewayCalls } from './gateway.ts';
import { type Question, questionForm, questionKey } from './questions.ts';
import { Steps } from './steps.ts';
import { act, atBottom, type PageView, poll } from './view.ts';

/** How often figures are read that no part of the stream announces. */
const POLL_MS = 5_000;
const ENDED: readonly string[] = ['success', 'failed', 'partial', 'timeout', 'canceled'];

/** The view of a turn. */
export function turnView(calls: GatewayCalls, agentTurnId: string): PageView {
  const path = `turns/${encodeURIComponent(agentTurnId)}`;
  const facts = make('dl', { class: 'figures' });
  const asked = make('p', { class: 'text' });
  const status = make('span', { role: 'status' });
  const waiting = make('div', { class: 'questions' });
  const tree = make('div');
  const end = make('div');
  // Only what is known to be open is steered and stopped.
  const controls = make('div', { hidden: '' });
  const steps = new Steps();
  let listener: (error: unknown) => void = () => {};
  const questions = new Children<Question>(waiting, questionKey, (question) =>
    questionForm(calls, question, () => refresh.now()),
  );
  const refresh = poll(POLL_MS, async (signal) => {
    const [turn, approvals, caused] = await Promise.all([
      calls.get<TurnView>(path, signal),
      calls.get<{ readonly items: readonly ApprovalView[] }>(
        `approvals?agentTurnId=${encodeURIComponent(agentTurnId)}`,
        signal,
      ),
      calls.get<TurnNode>(`${path}/tree`, signal),
    ]);
    if (status.textContent !== turn.status) fill(status, badge(turn.status));
    fill(asked, turn.instruction);
    fill(facts, ...figuresOf(turn, calls.caller.webUi));
    questions.show(questionsOf(turn, approvals.items));
    fill(tree, ...treeOf(caused));
    controls.hidden = ENDED.includes(turn.status);
    fill(end, ...endOf(turn));
    // Nothing changes any more.
    if (ENDED.includes(turn.status)) refresh.close();
  });
  const gone = new AbortController();
  const follow = async () => {
    const lost = (isLost: boolean) => listener(isLost ? new Error('the stream broke; it is opened again') : null);
    for await (const part of calls.events<StreamPart>(`${path}/stream`, gone.signal, lost)) {
      atBottom(() => steps.take(part));
      if (part.type !== 'text' && part.type !== 'reasoning' && part.type !== 'call_delta') refresh.now();
    }
  };
  follow().catch((error: unknown) => listener(error));
  if (calls.may('write')) controls.append(...controlsOf(calls, path, () => refresh.now()));
  const element = make(
    'div',
    { class: 'turn' },
    make('h2', {}, 'Turn ', status),
    facts,
    make('section', { 'aria-label': 'Request' }, make('h3', {}, 'Asked'), asked),
    waiting,
    steps.element,
    end,
    controls,
    tree,
  );
  return {
    title: 'Turn',
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

function figuresOf(turn: TurnView, webUi: string | null): readonly Content[] {
  const { agentId, agentTurnId, profile, cost, usage, stepCount, acceptedAt, endedAt, waitingForProvider } = turn;
  const workflow = encodeURIComponent(`agents/${agentId}/turns/${agentTurnId}`);
  return [
    figure('Agent', agentLink(agentId)),
    figure('Profile', profile),
    figure('Cost', money(cost)),
    figure('Tokens', `${count(usage.input)} in, ${count(usage.output)} out`),
    figure('Steps', count(stepCount)),
    figure('Accepted', ticking('since', acceptedAt)),
    endedAt === null ? null : figure('Took', `${((endedAt - acceptedAt) / 1_000).toFixed(1)} s`),
    turn.waitingForWorkers ? figure('Waits for workers', turn.waitingForWorkers.workerTarget) : null,
    waitingForProvider ? figure('Waits for its provider', waitingForProvider.message) : null,
    turn.parent ? figure('Asked by', turnLink(turn.parent.agentTurnId, turn.parent.agentId)) : null,
    webUi === null
      ? null
      : figure(
          'Temporal',
          make('a', { href: `${webUi}/${workflow}`, target: '_blank', rel: 'noopener noreferrer' }, 'Web UI'),
        ),
  ];
}

/** What the turn waits for: questions to people, and results of tools that suspend. */
function questionsOf(turn: TurnView, approvals: readonly ApprovalView[]): readonly Question[] {
  const { agentId, agentTurnId } = turn;
  const asked = approvals
    .filter(({ status }) => status === 'waiting')
    .map((approval): Question => ({ ...approval, kind: approval.kind === 'call' ? 'approval' : 'budget' }));
  const results = turn.waiting
    .filter(({ kind }) => kind === 'tool')
    .map(
      ({ callId, tool, deadline }): Question => ({
        ...{ kind: 'result', callId, agentId, agentTurnId, tool, deadline },
        ...{ written: null, reason: null, approvers: [] },
      }),
    );
  return [...asked, ...results];
}

/** The turns that this one, and what it delegated, caused. */
function treeOf(root: TurnNode): readonly Content[] {
  const list = below(root);
  return list === null ? [] : [make('h3', {}, 'Delegated'), list];
}

function below({ children }: TurnNode): Content {
  const turns = children.flatMap((child): readonly TurnNode[] => {
    if (child.node === 'call') return child.children;
    return child.node === 'turn' ? [child] : [];
  });
  const items = turns.map((turn) => {
    const link = turnLink(turn.agentTurnId, turn.agentId ?? turn.agentTurnId);
    return make('li', {}, link, ' ', badge(turn.status), below(turn));
  });
  return items.length === 0 ? null : make('ul', {}, ...items);
}

function endOf({ status, errorCode, reason, cure, deliverable }: TurnView): readonly Content[] {
  if (deliverable === null) return [];
  const { text, fields, fallback } = deliverable;
  const said = text ?? (fields ? pretty(Object.fromEntries(fields.map(({ name, value }) => [name, value]))) : null);
  return [
    make('h3', {}, 'End ', badge(status)),
    errorCode === null ? null : make('p', {}, make('code', {}, errorCode), reason === null ? null : ` ${reason}`),
    cure === null ? null : make('p', {}, cure),
    said === null ? null : make('pre', { class: 'deliverable' }, said),
    fallback && fallback.reason !== reason ? make('p', {}, fallback.reason) : null,
  ];
}

function controlsOf(calls: GatewayCalls, path: string, changed: () => void): readonly HTMLElement[] {
  const text = make('input', { id: 'steer', type: 'text', required: '', autocomplete: 'off' });
  const said = make('p', { class: 'said', role: 'status' });
  const steer = (event: Event) => {
    event.preventDefault();
    void act(said, async () => {
      const { ack } = await calls.post<{ readonly ack: string }>(`${path}/steer`, { text: text.value });
      text.value = '';
      return ack === 'accepted'
        ? 'The message is shown to the model before its next call.'
        : `The message was taken as: ${ack}.`;
    });
  };
  const stop = () =>
    void act(said, async () => {
      const { ack } = await calls.post<{ readonly ack: string }>(`${path}/stop`, {});
      changed();
      return `Stopped: ${ack}.`;
    });
  const form = make(
    'form',
    { class: 'steer', submit: steer },
    make('label', { for: 'steer' }, 'A message for the running turn'),
    text,
    make('button', {}, 'Steer'),
  );
  return [
    form,
    make(
      'div',
      { class: 'buttons' },
      make('button', { type: 'button', class: 'danger', click: stop }, 'Stop the turn'),
    ),
    said,
  ];
}
