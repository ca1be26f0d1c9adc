/** What waits for people, each with a form that answers it. */
import { facts, fill, make, messageOf } from './dom.ts';
import { agentLink, badge, pretty, ticking, turnLink } from './format.ts';
import type { GatewayCalls } from './gateway.ts';

/** Something that waits for an answer from outside. */
export interface Question {
  readonly kind: 'approval' | 'budget' | 'result';
  readonly callId: string;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly tool: string;
  /** What a result is asked for; left out where the page shows it elsewhere, and for other questions. */
  readonly arguments?: unknown;
  /** What the model wrote, which an edit takes the place of; null where there is nothing to edit. */
  readonly written: unknown;
  readonly reason: string | null;
  readonly approvers: readonly string[];
  readonly deadline: number;
  readonly queuedBehind?: number;
}

/** How a question is told apart from others. */
export const questionKey = ({ agentTurnId, callId }: Question): string => `${agentTurnId} ${callId}`;

const TITLES: Readonly<Record<Question['kind'], string>> = {
  approval: 'Approve the call of',
  budget: 'More budget',
  result: 'Result of',
};

/** What the text of a question's form is called, and what stands in it at first. */
function fieldOf({ kind, written }: Question): { readonly label: string; readonly text: string } {
  if (kind === 'result') return { label: 'Result (JSON or text)', text: '' };
  if (kind === 'budget') return { label: 'New budgets (JSON)', text: '{ "maxSteps": 20 }' };
  return { label: 'Arguments (JSON; change them to run the call with others)', text: pretty(written ?? {}) };
}

/** JSON; a text that is none, as a text. */
function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function jsonObject(text: string): object {
  const value = jsonOrText(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new Error('A JSON object is expected, such as {"city": "Rome"}.');
}

let forms = 0;

/** The form of a question. `answered` is called when an answer has been taken. */
export function questionForm(
  calls: GatewayCalls,
  question: Question,
  answered: () => void,
): { readonly element: Element } {
  const { kind, tool, agentId, agentTurnId, callId, reason, approvers, deadline, queuedBehind = 0 } = question;
  forms += 1;
  const { label, text } = fieldOf(question);
  const input = make('textarea', {
    id: `text-${forms}`,
    rows: String(Math.min(8, text.split('\n').length + 1)),
    spellcheck: 'false',
  });
  input.value = text;
  const note = make('input', { id: `note-${forms}`, type: 'text', maxlength: '1000', placeholder: 'optional' });
  const said = make('p', { class: 'said', role: 'status' });
  const send = (button: string, act: () => Promise<{ readonly ack: string }>) =>
    make(
      'button',
      {
        type: 'button',
        class: button === 'Deny' || button === 'Report a failure' ? 'quiet' : undefined,
        click: () => void answer(act),
      },
      button,
    );
  const answer = async (act: () => Promise<{ readonly ack: string }>) => {
    try {
      const { ack } = await act();
      fill(said, ack === 'applied' ? 'Answered.' : `The answer was taken as: ${ack}.`);
      answered();
    } catch (error) {
      fill(said, messageOf(error));
    }
  };
  const buttons = kind === 'result' ? resultButtons() : answerButtons();

  function resultButtons() {
    const path = `turns/${encodeURIComponent(agentTurnId)}/tool-results/${encodeURIComponent(callId)}`;
    const failure = () => ({ code: 'tool_failed', message: input.value || 'reported as failed' });
    return [
      send('Send the result', () => calls.post(path, { status: 'success', result: jsonOrText(input.value) })),
      send('Report a failure', () => calls.post(path, { status: 'failed', error: failure() })),
    ];
  }

  function answerButtons() {
    const path = `turns/${encodeURIComponent(agentTurnId)}/approvals`;
    const because = () => (note.value === '' ? {} : { reason: note.value });
    const approval = () => {
      if (kind === 'budget') return { budgets: jsonObject(input.value) };
      return input.value === text ? {} : { arguments: jsonObject(input.value) };
    };
    return [
      send('Approve', async () => calls.post(path, { callId, decision: 'approved', ...because(), ...approval() })),
      send('Deny', () => calls.post(path, { callId, decision: 'denied', ...because() })),
    ];
  }

  const may = calls.may(kind === 'result' ? 'write' : 'approve');
  const titleId = `question-${forms}`;
  const element = make(
    'section',
    { class: 'question', 'aria-labelledby': titleId, 'data-call': callId },
    make('h3', { id: titleId }, TITLES[kind], ' ', tool === '' ? null : make('code', {}, tool), ' ', badge(kind)),
    facts(
      agentLink(agentId),
      ' · ',
      turnLink(agentTurnId, 'its turn'),
      ' · ',
      ticking('until', deadline),
      approvers.length > 0 ? ` · asked: ${approvers.join(', ')}` : null,
      queuedBehind > 0 ? ` · ${queuedBehind} queued behind it` : null,
    ),
    reason ? make('p', {}, reason) : null,
    kind === 'result' && question.arguments ? make('pre', {}, pretty(question.arguments)) : null,
    make('label', { for: input.id }, label),
    input,
    kind === 'result' ? null : make('label', { for: note.id }, 'Reason'),
    kind === 'result' ? null : note,
    may ? make('div', { class: 'buttons' }, ...buttons) : facts('This token may not answer.'),
    said,
  );
  return { element };
}
