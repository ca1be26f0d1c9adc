/** The steps of a turn as they happen: texts, calls, progress, results. */
import type { StreamedCall, StreamPart } from '../../stream-parts.ts';
import { facts, fill, make } from './dom.ts';
import { badge, pretty, prettyJson, ticking } from './format.ts';

/** The most steps that are on the page at once: a turn may have thousands. */
const MOST_STEPS = 200;

interface CallElement {
  readonly element: HTMLElement;
  readonly status: Element;
  readonly written: Element;
  readonly more: Element;
}

function callElement(tool: string, callId: string | undefined): CallElement {
  const status = make('span');
  const written = make('pre', {});
  const more = make('div');
  const element = make(
    'li',
    { class: 'call', 'data-call': callId },
    make('p', {}, make('code', {}, tool), ' ', status),
    make('details', { open: '' }, make('summary', {}, 'Arguments'), written),
    more,
  );
  return { element, status, written, more };
}

/** One step on the page. */
class StepElement {
  readonly element: HTMLElement;
  readonly #text = document.createTextNode('');
  readonly #reasoning = document.createTextNode('');
  readonly #thinking: HTMLElement;
  readonly #note = facts();
  readonly #calls = make('ul', { class: 'calls' });
  /** Calls that the model is writing, by their place in its answer. */
  readonly #drafts = new Map<number, { readonly call: CallElement; readonly text: Text }>();

  constructor(stepIndex: number) {
    this.#thinking = make(
      'details',
      { class: 'thinking', hidden: '' },
      make('summary', {}, 'Reasoning'),
      make('p', {}, this.#reasoning),
    );
    this.element = make(
      'article',
      { class: 'step', 'aria-label': `Step ${stepIndex}` },
      make('h3', {}, `Step ${stepIndex}`),
      this.#thinking,
      make('p', { class: 'text' }, this.#text),
      this.#note,
      this.#calls,
    );
  }

  text(delta: string): void {
    this.#text.appendData(delta);
    fill(this.#note, '');
  }

  reasoning(delta: string): void {
    this.#thinking.hidden = false;
    this.#reasoning.appendData(delta);
  }

  draft(index: number, tool: string, delta: string): void {
    let draft = this.#drafts.get(index);
    if (!draft) {
      draft = { call: callElement(tool, undefined), text: document.createTextNode('') };
      fill(draft.call.status, badge('being written'));
      draft.call.written.append(draft.text);
      this.#calls.append(draft.call.element);
      this.#drafts.set(index, draft);
    }
    draft.text.appendData(delta);
  }

  /** Takes back all that is not committed. */
  retract(note: string): void {
    this.#text.data = '';
    this.#reasoning.data = '';
    this.#thinking.hidden = true;
    this.#drafts.clear();
    this.#calls.replaceChildren();
    fill(this.#note, note);
  }

  commit(calls: readonly StreamedCall[], refusal: string | undefined): readonly [string, CallElement][] {
    this.#drafts.clear();
    this.#calls.replaceChildren();
    fill(this.#note, refusal === undefined ? '' : `The model refused: ${refusal}`);
    return calls.map(({ callId, tool, arguments: written }) => {
      const call = callElement(tool, callId);
      fill(call.written, prettyJson(written));
      fill(call.status, badge('running'));
      this.#calls.append(call.element);
      return [callId, call];
    });
  }

  note(text: string): void {
    fill(this.#note, text);
  }
}

/** The steps of one turn, fed with the parts of its stream. */
export class Steps {
  readonly element = make('div', { class: 'steps' });
  readonly #earlier = facts();
  readonly #steps = new Map<number, StepElement>();
  readonly #calls = new Map<string, CallElement>();

  constructor() {
    this.element.append(this.#earlier);
  }

  /** Shows what a part says. */
  take(part: StreamPart): void {
    switch (part.type) {
      case 'text':
        this.#step(part.stepIndex).text(part.delta);
        break;
      case 'reasoning':
        this.#step(part.stepIndex).reasoning(part.delta);
        break;
      case 'call_delta':
        this.#step(part.stepIndex).draft(part.index, part.tool, part.delta);
        break;
      case 'retracted':
        this.#step(part.stepIndex).retract('The answer was taken back; the model is asked again.');
        break;
      case 'step':
        for (const [callId, call] of this.#step(part.stepIndex).commit(part.calls, part.refusal))
          this.#calls.set(callId, call);
        break;
      case 'provider':
        this.#step(part.stepIndex).note(`${part.message} Next try: ${new Date(part.nextTryAt).toLocaleTimeString()}.`);
        break;
      case 'approval':
      case 'progress':
      case 'waiting':
      case 'result':
        this.#takeOfCall(part);
        break;
    }
  }

  #takeOfCall(part: Extract<StreamPart, { type: 'approval' | 'progress' | 'waiting' | 'result' }>): void {
    const call = this.#calls.get(part.callId);
    if (!call) return;
    switch (part.type) {
      case 'approval':
        fill(
          call.status,
          badge(part.phase === 'asked' ? 'waiting' : part.phase),
          part.by === undefined ? null : ` by ${part.by}`,
        );
        return;
      case 'progress':
        fill(call.more, facts(`Progress: ${pretty(part.progress)}`));
        return;
      case 'waiting':
        fill(call.status, badge('waiting'), ' ', ticking('until', part.deadline));
        return;
      case 'result': {
        const { status, result, error } = part;
        fill(call.status, badge(status));
        const said = error ? `${error.code}: ${error.message}` : pretty(result ?? null);
        fill(call.more, make('details', { open: '' }, make('summary', {}, 'Result'), make('pre', {}, said)));
      }
    }
  }

  #step(stepIndex: number): StepElement {
    const known = this.#steps.get(stepIndex);
    if (known) return known;
    const step = new StepElement(stepIndex);
    this.#steps.set(stepIndex, step);
    this.element.append(step.element);
    const [oldest] = this.#steps.keys();
    if (this.#steps.size > MOST_STEPS && oldest !== undefined) {
      this.#steps.get(oldest)?.element.remove();
      this.#steps.delete(oldest);
      fill(this.#earlier, `Steps up to ${oldest} are not shown; "agentturn turn show --transcript" has all.`);
    }
    return step;
  }
}
