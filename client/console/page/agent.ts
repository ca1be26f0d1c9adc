/** One agent: where it stands, its turns, a new request. */
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { Children, fill, make } from './dom.ts';
import { badge, count } from './format.ts';
import { type GatewayCalls, RefusedError } from './gateway.ts';
import { postureWord, rowTable, TURN_HEADS, turnRow } from './overview.ts';
import { act, type PageView, poll } from './view.ts';

const POLL_MS = 2_000;

/** The view of an agent. */
export function agentView(calls: GatewayCalls, agentId: string): PageView {
  const path = `agents/${encodeURIComponent(agentId)}`;
  const facts = make('p', { class: 'facts' });
  const said = make('p', { class: 'said', role: 'status' });
  const turns = rowTable('Turns', TURN_HEADS);
  const rows = new Children<TurnView>(
    turns.body,
    ({ agentTurnId }) => agentTurnId,
    (turn) => {
      const row = turnRow(turn);
      return {
        element: row.element,
        update: (now: TurnView) => row.update({ ...now, asked: now.instruction.slice(0, 200) }),
      };
    },
  );
  const refresh = poll(POLL_MS, async (signal) => {
    const [agent, page] = await Promise.all([
      calls.get<AgentSummary>(path, signal),
      calls.get<{ readonly items: readonly TurnView[] }>(`${path}/turns?last=30`, signal),
    ]).catch((error: unknown) => {
      // Its first request makes it.
      if (error instanceof RefusedError && error.status === 404) return [null, { items: [] }] as const;
      throw error;
    });
    if (agent === null) return fill(facts, 'This agent has had no request yet.');
    const { identity, agent: at, lifecycle, schedulingPosture } = agent;
    fill(
      facts,
      badge(postureWord({ lifecycle: lifecycle.acceptsExternalMessages ? 'started' : 'stopped', ...at.head })),
      ` ${identity.profile ?? 'no profile'} · ${count(at.turnIndex)} turns · ${count(at.pending)} queued`,
      ` · ${schedulingPosture.reason}`,
    );
    rows.show(page.items.toReversed());
  });
  const command = (name: string, done: string) =>
    make(
      'button',
      {
        type: 'button',
        class: 'quiet',
        click: () =>
          void act(said, async () => {
            await calls.post(`${path}/${name}`, {});
            refresh.now();
            return done;
          }),
      },
      name === 'stop' ? 'Stop the agent' : 'Start the agent',
    );
  const element = make(
    'div',
    {},
    make('h2', {}, 'Agent ', agentId),
    facts,
    calls.may('operate')
      ? make('div', { class: 'buttons' }, command('stop', 'Stopped: its queue stays.'), command('start', 'Started.'))
      : null,
    said,
    calls.may('write') ? requestForm(calls, path, said) : null,
    make('section', { 'aria-labelledby': 'turns' }, make('h2', { id: 'turns' }, 'Turns'), turns.element),
  );
  return { title: `Agent ${agentId}`, element, close: refresh.close, failed: refresh.failed };
}

function requestForm(calls: GatewayCalls, path: string, said: Element): HTMLFormElement {
  const instruction = make('textarea', { id: 'instruction', rows: '3', required: '' });
  const submit = (event: Event) => {
    event.preventDefault();
    void act(said, async () => {
      const { agentTurnId } = await calls.post<{ readonly agentTurnId: string }>(`${path}/turns`, {
        instruction: instruction.value,
      });
      location.hash = `#/turns/${encodeURIComponent(agentTurnId)}`;
      return '';
    });
  };
  return make(
    'form',
    { submit },
    make('label', { for: 'instruction' }, 'A new request'),
    instruction,
    make('div', { class: 'buttons' }, make('button', {}, 'Enqueue')),
  );
}
