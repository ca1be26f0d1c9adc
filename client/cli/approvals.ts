/** `approvals`, `approve` and `turn budgets`: what waits for a person, the answers, and budgets of a running turn. */

import { userInfo } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type ApprovalAck, type ApprovalView, budgetChangeSchema } from '../../workflows/contract/approvals.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { BudgetChange } from '../../workflows/protocol/profile.ts';
import type { ClientApi } from '../client-api.ts';
import { commandLine } from '../command-line.ts';
import { answerCommands } from './answers.ts';
import { jsonOf } from './arguments.ts';
import { type CliEnvironment, type CommonOptions, connected, PAGE, type PageOptions, tellMore } from './environment.ts';
import { shortened, time } from './format.ts';
import { placeOf } from './inbox.ts';

/** The options of `approvals`. */
export interface ApprovalsOptions extends PageOptions {
  readonly turn?: string;
  readonly agent?: string;
  readonly all?: boolean;
}

/** The options of `approve`; `arguments` and `budgets` are JSON. */
export interface ApproveOptions extends CommonOptions {
  readonly turn?: string;
  readonly deny?: boolean;
  readonly by?: string;
  readonly reason?: string;
  readonly arguments?: string;
  readonly budgets?: string;
}

const ARGUMENTS_SHOWN = 200;
/** Among how many waiting calls one is looked for. */
const MOST_SEARCHED = 1_000;

/** `approvals`: a page of what waits for people. Resolves with the exit code. */
export async function printApprovals(
  { io, openStore }: CliEnvironment,
  { turn, agent, all, after, limit = PAGE, json, ...options }: ApprovalsOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const found = await store.listApprovals({
      ...(turn === undefined ? {} : { rootTurnId: turn }),
      ...(agent === undefined ? {} : { agentId: agent }),
      ...(all ? { all } : {}),
      ...(after === undefined ? {} : { after: placeOf(after) }),
      limit: limit + 1,
    });
    const approvals = found.slice(0, limit);
    const last = approvals.at(-1);
    const next = last && found.length > limit ? `${last.createdAt}:${last.agentTurnId}:${last.callId}` : null;
    if (json) {
      io.out(JSON.stringify({ items: approvals, next }));
      return 0;
    }
    const nothing = after === undefined ? 'nothing waits for approval' : 'no more';
    for (const line of approvals.length === 0 ? [nothing] : approvals.flatMap(approvalLines)) io.out(line);
    const filter = [turn && ` --turn ${turn}`, agent && ` --agent ${agent}`, all && ' --all'].filter(Boolean).join('');
    tellMore(io, `approvals${filter} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

function approvalLines(approval: ApprovalView): string[] {
  const { callId, agentId, agentTurnId, kind, tool, reason, approvers, escalated, status, answeredBy } = approval;
  const who = approvers.length > 0 ? ` by ${approvers.join(' or ')}` : '';
  const state =
    status === 'waiting'
      ? `waits until ${time(approval.deadline)}${who}${escalated ? ' (escalated)' : ''}`
      : `${status}${answeredBy === null ? '' : ` by ${answeredBy}`}`;
  const what =
    kind === 'budget' ? 'more budget' : `${tool} ${shortened(JSON.stringify(approval.arguments), ARGUMENTS_SHOWN)}`;
  return [
    `${callId}  ${what}`,
    `    ${state}; agent ${agentId}, turn ${agentTurnId}`,
    `    ${reason}`,
    ...writtenLines(approval),
    ...(status === 'waiting' ? answers(approval).map((command) => `      ${command}`) : []),
  ];
}

const answers = ({ kind, ...question }: ApprovalView): string[] =>
  answerCommands({ ...question, kind: kind === 'budget' ? 'budget' : 'approval' });

/** An edit takes the place of what the model wrote, which is not always what will run. */
function writtenLines({ arguments: args, written }: ApprovalView): string[] {
  const text = JSON.stringify(written);
  if (written === null || text === JSON.stringify(args)) return [];
  return [`    written by the model as ${shortened(text, ARGUMENTS_SHOWN)}; edit it in this form`];
}

/** What each answer means for the caller. */
const MEANING = {
  applied: 'the answer is kept and the turn goes on',
  stale: 'the turn is over; nothing changed',
} as const;

/** An answer to a question that there is. */
type KnownAck = ApprovalAck & { readonly ack: Exclude<ApprovalAck['ack'], 'unknown'> };

function meaning({ ack, recorded }: KnownAck): string {
  if (ack !== 'duplicate') return MEANING[ack];
  const before = recorded ? `${recorded.status}${recorded.by === null ? '' : ` by ${recorded.by}`}` : 'answered';
  const how = recorded?.arguments
    ? `, with the arguments ${shortened(JSON.stringify(recorded.arguments), ARGUMENTS_SHOWN)}`
    : '';
  return `it was ${before} before${how}; nothing changed`;
}

/** The turn that waits for the answer, else one that asked: questions about budgets have the same name in every turn. */
async function askedBy(client: ClientApi, callId: string): Promise<string | undefined> {
  const [waiting] = await client.approvals({ callId, limit: 1 });
  const [asked] = waiting ? [waiting] : await client.approvals({ callId, all: true, limit: 1 });
  return asked?.agentTurnId;
}

/** That nobody asked, or that something else is waited for. */
async function nobodyAsked(client: ClientApi, callId: string): Promise<CodedError> {
  const asked = (await client.inbox({ limit: MOST_SEARCHED })).find((entry) => entry.callId === callId);
  const [command] = asked ? answerCommands(asked) : [];
  if (command !== undefined)
    return new CodedError('call_not_found', `call ${callId} waits for a result and not for approval`, {
      cure: `Answer it with: ${command}`,
    });
  return new CodedError('call_not_found', `nobody asks about a call ${callId} in this store`, {
    cure: `"${commandLine('inbox')}" lists what waits.`,
  });
}

/**
 * `approve`: answers one question. Resolves with the exit code, 1 when the answer does not stand. Errors: `invalid_request`, `call_not_found`,
 * `approval_refused`, `budget_refused`.
 */
export const approve = (
  environment: CliEnvironment,
  callId: string,
  { turn, ...options }: ApproveOptions,
): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const { deny, by, reason, arguments: edited, budgets, json } = options;
    const turnId = turn ?? (await askedBy(client, callId));
    const answer = {
      callId,
      decision: deny ? 'denied' : 'approved',
      by: by ?? userName(),
      ...(reason === undefined ? {} : { reason }),
      ...(edited === undefined ? {} : { arguments: objectOf('--arguments', edited) }),
      ...(budgets === undefined ? {} : { budgets: budgetsFrom('--budgets', budgets) }),
    } as const;
    if (turnId === undefined) throw await nobodyAsked(client, callId);
    const { ack: fate, ...rest } = await client.turn(turnId).answer(answer);
    if (fate === 'unknown') throw await nobodyAsked(client, callId);
    const ack: KnownAck = { ...rest, ack: fate };
    environment.io.out(json ? JSON.stringify(ack) : `${ack.ack}: ${meaning(ack)}`);
    const stands = ack.recorded?.status === (deny ? 'denied' : 'approved') && isSame(ack, edited);
    return ack.ack === 'applied' || stands ? 0 : 1;
  });

/** Whether what was approved before runs with the arguments of this answer. */
const isSame = ({ recorded }: ApprovalAck, edited: string | undefined): boolean =>
  isDeepStrictEqual(recorded?.arguments ?? null, edited === undefined ? null : objectOf('--arguments', edited));

/** Who answers where nobody is named: the user of this machine. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw new CodedError('invalid_request', 'this machine knows no name of its user: say with --by who answers');
  }
}

/** `turn budgets`: gives a turn new budgets. Resolves with the exit code. Errors: `invalid_request`, `turn_not_found`, `turn_ended`, `budget_refused`. */
export const changeBudgets = (
  environment: CliEnvironment,
  turnId: string,
  budgets: string,
  options: CommonOptions,
): Promise<number> =>
  connected(environment, options, async ({ client }) => {
    const set = budgetsFrom('budgets', budgets);
    await client.turn(turnId).setBudgets(set);
    environment.io.out(options.json ? JSON.stringify({ turnId, budgets: set }) : `turn ${turnId} has new budgets`);
    return 0;
  });

const object = z.record(z.string(), z.json());

function objectOf(option: string, text: string): z.infer<typeof object> {
  const parsed = object.safeParse(jsonOf(option, text));
  if (parsed.success) return parsed.data;
  throw new CodedError('invalid_request', `${option} must be a JSON object, e.g. '{"amount":10}'`);
}

function budgetsFrom(option: string, text: string): BudgetChange {
  const parsed = budgetChangeSchema.safeParse(jsonOf(option, text));
  if (parsed.success) return parsed.data;
  throw new CodedError('invalid_request', `${option}: ${z.prettifyError(parsed.error)}`);
}
