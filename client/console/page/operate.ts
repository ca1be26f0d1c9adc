/** What an operator does to an agent: answer it, ask it, wake it, stop it and start it. */
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import { make, Part } from './dom.ts';
import { turnLink } from './format.ts';
import type { GatewayCalls } from './gateway.ts';
import { act } from './view.ts';

/** What forms need of the view that they stand in. */
export interface Operated {
  readonly calls: GatewayCalls;
  /** The agent, behind `/v1/`. */
  readonly path: string;
  /** Reads the agent again. */
  changed(): void;
}

/** A part of the view that follows what the agent is at. */
export interface OperatePart {
  readonly element: HTMLElement;
  show(summary: AgentSummary): void;
}

interface TextForm {
  readonly id: string;
  readonly tag: 'textarea' | 'input';
  readonly label: string;
  readonly button: string;
  /** Where it is said what became of it; below the form when left out. */
  readonly said?: HTMLElement;
  /** Does what the form is for; what it returns is said. */
  send(text: string): Promise<string | Node>;
}

const saidHere = (): HTMLElement => make('p', { class: 'said', role: 'status', tabindex: '-1' });

function textForm({ id, tag, label, button, said, send }: TextForm): HTMLFormElement {
  const isLine = tag === 'input';
  const text = make(tag, { id, required: '', ...(isLine ? { type: 'text', autocomplete: 'off' } : { rows: '3' }) });
  const note = said ?? saidHere();
  let isSending = false;
  const submit = async (event: Event) => {
    event.preventDefault();
    // What is pressed twice is sent once.
    if (isSending) return;
    isSending = true;
    await act(note, async () => {
      const what = await send(text.value);
      text.value = '';
      return what;
    });
    isSending = false;
  };
  const press = make('button', { class: isLine ? 'quiet' : undefined }, button);
  const below = make('div', { class: 'buttons' }, press);
  return make(
    'form',
    { submit: (event) => void submit(event) },
    make('label', { for: id }, label),
    ...[text, below, said ? null : note],
  );
}

const ask = async ({ calls, path }: Operated, instruction: string): Promise<string> =>
  (await calls.post<{ readonly agentTurnId: string }>(`${path}/turns`, { instruction })).agentTurnId;

/** A new request of the agent. */
export function requestForm(operated: Operated): HTMLFormElement {
  return textForm({
    ...{ id: 'instruction', tag: 'textarea', label: 'A new request', button: 'Enqueue' },
    async send(text) {
      location.hash = `#/turns/${encodeURIComponent(await ask(operated, text))}`;
      return '';
    },
  });
}

/** What the agent waits for a person for, each in a sentence. */
function questionsOf({ lifecycle, activeWaits, workItems }: AgentSummary): readonly string[] {
  if (!lifecycle.acceptsExternalMessages) return [];
  const waits = activeWaits.filter(({ kind }) => kind === 'operator').map(({ reason }) => reason);
  const plans = workItems
    .filter(({ schedulingState, waitId }) => schedulingState === 'waiting_operator' && waitId === null)
    .map(({ objective }) => `It needs to know more for: ${objective}`);
  return [...waits, ...plans];
}

/** The answer to an agent that waits for a person: a request with the person's words. */
export function answerForm(operated: Operated): OperatePart {
  const questions = new Part<readonly string[]>('It waits for a person', (each) =>
    each.map((text) => make('p', {}, text)),
  );
  // The form is gone as soon as it is answered.
  const said = saidHere();
  const form = textForm({
    ...{ id: 'answer', tag: 'textarea', label: 'Your answer', button: 'Answer', said },
    async send(text) {
      const id = await ask(operated, text);
      operated.changed();
      said.focus();
      return turnLink(id, 'Answered: the turn that goes on with it');
    },
  });
  const element = make('div', {}, questions.element, said);
  questions.element.className = 'question';
  questions.element.append(form);
  return {
    element,
    show: (summary) => questions.show(questionsOf(summary)),
  };
}

/** The buttons that stop and start the agent, and the form that wakes it. */
export function controls(operated: Operated): OperatePart {
  const { calls, path, changed } = operated;
  const said = saidHere();
  const run = (name: string, body: object, done: string) =>
    void act(said, async () => {
      await calls.post(`${path}/${name}`, body);
      changed();
      return done;
    });
  const dialog = stopDialog((reason) =>
    run('stop', reason === '' ? {} : { reason }, 'Stopped: its queue, its work and its waits stay.'),
  );
  const button = (text: string, kind: string, click: () => void) =>
    make('button', { type: 'button', class: kind, hidden: '', click }, text);
  const stop = button('Stop the agent …', 'danger', () => dialog.showModal());
  const start = button('Start the agent', '', () => run('start', {}, 'Started.'));
  const wake = textForm({
    ...{ id: 'wake', tag: 'input', label: 'Wake it, with a reason', button: 'Wake' },
    async send(reason) {
      const { disposition } = await calls.post<{ readonly disposition: string }>(`${path}/wake`, { reason });
      changed();
      return WOKEN[disposition] ?? `It was taken as: ${disposition}.`;
    },
  });
  wake.hidden = true;
  const element = make('div', {}, make('div', { class: 'buttons' }, stop, start), said, wake, dialog);
  return {
    element,
    show({ lifecycle: { acceptsExternalMessages: isStarted } }) {
      const [shown, other] = isStarted ? [stop, start] : [start, stop];
      const held = document.activeElement === other;
      shown.hidden = false;
      if (held) shown.focus();
      other.hidden = true;
      wake.hidden = !isStarted;
    },
  };
}

const WOKEN: Readonly<Record<string, string>> = {
  woken: 'It was woken.',
  kept: 'It is told with the next turn that it makes.',
};

function stopDialog(stop: (reason: string) => void): HTMLDialogElement {
  const reason = make('input', {
    id: 'why',
    type: 'text',
    maxlength: '1000',
    placeholder: 'optional',
    autocomplete: 'off',
  });
  const submit = (event: Event) => {
    event.preventDefault();
    dialog.close();
    stop(reason.value);
  };
  const cancel = () => dialog.close();
  const form = make(
    'form',
    { submit },
    make('h2', { id: 'sure' }, 'Stop the agent?'),
    make('p', {}, 'Its open turn ends. It takes no requests and wakes for nothing until it is started again.'),
    make('label', { for: 'why' }, 'Reason'),
    reason,
    make(
      'div',
      { class: 'buttons' },
      make('button', { class: 'danger' }, 'Stop it'),
      make('button', { type: 'button', class: 'quiet', click: cancel }, 'Leave it'),
    ),
  );
  const dialog = make('dialog', { 'aria-labelledby': 'sure' }, form);
  return dialog;
}
