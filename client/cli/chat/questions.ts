/** Questions to people, asked and answered in the chat: may this call run, may the turn have a larger budget (K7, K9). */
import { z } from 'zod';
import { type ApprovalView, budgetChangeSchema } from '../../../workflows/contract/approvals.ts';
import type { AnswerInput } from '../../api.ts';
import type { ClientApi } from '../../client-api.ts';
import { time } from '../format.ts';
import type { ChatScreen } from './screen.ts';
import { clipped, roughly } from './text.ts';

/** An answer as somebody has written it: what it says, or what is wrong with it; null for a text that is none. */
export type WrittenAnswer = { readonly answer: Omit<AnswerInput, 'callId' | 'by'> } | { readonly wrong: string } | null;

const object = z.record(z.string(), z.json());

/** Reads an answer: `y`, `n`, `n` with a reason, or JSON of edited arguments or larger budgets. */
export function writtenAnswer(text: string, kind: ApprovalView['kind']): WrittenAnswer {
  const said = text.trim();
  if (/^y(es)?$/i.test(said)) return { answer: { decision: 'approved' } };
  const [no, reason] = /^n(?:o)?(?:\s+(.+))?$/is.exec(said) ?? [];
  if (no !== undefined) return { answer: { decision: 'denied', ...(reason === undefined ? {} : { reason }) } };
  if (!said.startsWith('{')) return null;
  const value = jsonOf(said);
  if (kind === 'budget') {
    const budgets = budgetChangeSchema.safeParse(value);
    return budgets.success
      ? { answer: { decision: 'approved', budgets: budgets.data } }
      : { wrong: `these are no budgets: ${z.prettifyError(budgets.error)}` };
  }
  const args = object.safeParse(value);
  if (args.success) return { answer: { decision: 'approved', arguments: args.data } };
  return { wrong: 'the arguments are no JSON object, and nothing was answered' };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What questions are asked with. */
export interface QuestionSetting {
  readonly client: Pick<ClientApi, 'approvals' | 'turn'>;
  readonly screen: ChatScreen;
  /** Who answers. */
  readonly me: string;
  /** Called when another question is the one to be answered, or none. */
  readonly changed: () => void;
}

/** The questions that wait, the oldest first. */
export class Questions {
  readonly #setting: QuestionSetting;
  readonly #open = new Map<string, ApprovalView>();
  readonly #asked = new Set<string>();

  constructor(setting: QuestionSetting) {
    this.#setting = setting;
  }

  /** The question that an answer is for; undefined when none waits. */
  get first(): ApprovalView | undefined {
    return this.#open.values().next().value;
  }

  /** What the person is asked before the line; null when nothing is asked. */
  get prompt(): string | null {
    const { first } = this;
    if (!first) return null;
    const more = this.#open.size > 1 ? ` (1 of ${this.#open.size})` : '';
    return first.kind === 'budget'
      ? `more budget?${more} [{…}/n] `
      : `run ${clipped(first.tool, 30)}?${more} [y/n/{…}] `;
  }

  /** Shows questions of the turn, or of what it delegated, that wait and were not shown. */
  async find(agentTurnId: string): Promise<void> {
    const waiting = await this.#setting.client.approvals({ rootTurnId: agentTurnId });
    const keys = new Set(waiting.map(keyOf));
    for (const key of [...this.#open.keys()].filter((each) => !keys.has(each))) this.#open.delete(key);
    for (const question of waiting) this.#show(question, agentTurnId);
    this.#setting.changed();
  }

  /** A question has its answer, from here or elsewhere. */
  settle(agentTurnId: string, callId: string): void {
    if (this.#open.delete(keyOf({ agentTurnId, callId }))) this.#setting.changed();
  }

  /** The turn has ended, and nothing of it is asked any more. */
  end(): void {
    this.#open.clear();
    this.#setting.changed();
  }

  /** Takes what was written as an answer; false when it is none. Errors: those of `TurnHandle.answer`. */
  async take(text: string): Promise<boolean> {
    const { first } = this;
    const written = first && writtenAnswer(text, first.kind);
    if (!first || !written) return false;
    const { screen, client, me } = this.#setting;
    if ('wrong' in written) {
      screen.print(written.wrong, { head: '  ', style: 'red' });
      return true;
    }
    const { agentTurnId, callId } = first;
    const ack = await client.turn(agentTurnId).answer({ ...written.answer, callId, by: me });
    this.settle(agentTurnId, callId);
    if (ack.ack === 'duplicate' && ack.recorded)
      screen.print(`it was ${ack.recorded.status} before by ${ack.recorded.by ?? 'somebody'}; nothing changed`, {
        head: '  ',
      });
    else if (ack.ack !== 'applied') screen.print('the turn is over; nothing changed', { head: '  ' });
    return true;
  }

  #show(question: ApprovalView, agentTurnId: string): void {
    const key = keyOf(question);
    this.#open.set(key, question);
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    const { screen } = this.#setting;
    const by = question.agentTurnId === agentTurnId ? '' : ` (asked by ${question.agentId})`;
    screen.print(`${whatIsAsked(question)}${by}`, { head: '? ', style: ['bold', 'yellow'] });
    for (const line of detailsOf(question, Date.now())) screen.print(line, { head: '  ' });
  }
}

const keyOf = ({ agentTurnId, callId }: Pick<ApprovalView, 'agentTurnId' | 'callId'>) => `${agentTurnId}/${callId}`;

const whatIsAsked = ({ kind, tool, arguments: args }: ApprovalView): string =>
  kind === 'budget' ? 'may the turn have a larger budget?' : `may ${tool} run with ${JSON.stringify(args)}?`;

/** What somebody who answers must know: an edit takes the place of what the model wrote, which is not always what will run. */
function detailsOf(
  { kind, reason, approvers, deadline, arguments: args, written }: ApprovalView,
  now: number,
): string[] {
  const who = approvers.length > 0 ? `${approvers.join(' or ')} may answer` : 'anybody may answer';
  const other = JSON.stringify(written);
  return [
    ...(reason === '' ? [] : [`why: ${reason}`]),
    ...(written === null || other === JSON.stringify(args) ? [] : [`written by the model as ${other}`]),
    `${who} for ${roughly(deadline - now)}, until ${time(deadline)}`,
    kind === 'budget'
      ? 'answer: {"maxSteps":100} or the like, or n [reason]'
      : 'answer: y, n [reason], or {…} to run it with other arguments',
  ];
}
