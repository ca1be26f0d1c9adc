/** `work ls`, `work show` and `waits ls`: what an agent has to do, and what it waits for between its turns. */
import type { ScheduledWorkItem, Todo } from '../../workflows/agent-state/work-items.ts';
import type { WorkPage } from '../../workflows/contract/agent-work.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { commandLine } from '../command-line.ts';
import { waitRows, workItemRows } from './agent-tables.ts';
import { noAgent } from './control.ts';
import { type CliEnvironment, type CommonOptions, PAGE, type PageOptions, tellMore } from './environment.ts';
import { indent, table, time } from './format.ts';

/** The options of a list of what an agent has. */
export interface WorkListOptions extends PageOptions {
  /** Lists also what is completed, ended or revoked. */
  readonly all?: boolean;
}

/** One list of what an agent has. */
export interface WorkList<T> {
  /** The command that prints it, without the agent. */
  readonly command: string;
  /** What is said where there is nothing. */
  readonly empty: string;
  read(store: ClientStore, agentId: string, page: WorkPage): Promise<readonly T[]>;
  id(item: T): string;
  rows(items: readonly T[]): readonly (readonly string[])[];
}

/** Prints a page of a list. Resolves with the exit code. Errors: `agent_not_found`. */
export async function printWorkList<T>(
  { io, openStore }: CliEnvironment,
  agentId: string,
  options: WorkListOptions,
  list: WorkList<T>,
): Promise<number> {
  const { after, limit = PAGE, all = false, json } = options;
  const store = await openStore(options);
  try {
    if (!(await store.getAgent(agentId))) throw noAgent(agentId);
    const page = { open: !all, ...(after === undefined ? {} : { after }), limit: limit + 1 };
    const found = await list.read(store, agentId, page);
    const items = found.slice(0, limit);
    const last = items.at(-1);
    const next = last !== undefined && found.length > limit ? list.id(last) : null;
    if (json) io.out(JSON.stringify({ items, next }));
    else if (items.length === 0) io.out(after === undefined ? list.empty : 'no more');
    else for (const line of table(list.rows(items))) io.out(line);
    if (!json) tellMore(io, `${list.command} ${agentId}${all ? ' --all' : ''} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

/** `work ls`: work items of an agent. Resolves with the exit code. Errors: `agent_not_found`. */
export const printWorkItems = (environment: CliEnvironment, agentId: string, options: WorkListOptions) =>
  printWorkList(environment, agentId, options, {
    command: 'work ls',
    empty: 'no work items',
    read: (store, agent, page) => store.listWorkItems(agent, page),
    id: ({ workItemId }) => workItemId,
    rows: workItemRows,
  });

/** `waits ls`: what an agent waits for. Resolves with the exit code. Errors: `agent_not_found`. */
export const printWaits = (environment: CliEnvironment, agentId: string, options: WorkListOptions) =>
  printWorkList(environment, agentId, options, {
    command: 'waits ls',
    empty: 'it waits for nothing',
    read: (store, agent, page) => store.listWaits(agent, page),
    id: ({ waitId }) => waitId,
    rows: waitRows,
  });

const SEARCHED = 500;

/** `work show`: one work item of an agent. Resolves with the exit code. Errors: `agent_not_found`, `not_found`. */
export async function printWorkItem(
  { io, openStore }: CliEnvironment,
  agentId: string,
  workItemId: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    if (!(await store.getAgent(agentId))) throw noAgent(agentId);
    const item = await findWorkItem(store, agentId, workItemId);
    if (!item) {
      const cure = `${commandLine(`work ls ${agentId} --all`)} shows those it has`;
      throw new CodedError('not_found', `agent ${agentId} has no work item ${workItemId}; ${cure}`);
    }
    for (const line of options.json ? [JSON.stringify(item)] : workItemPage(item)) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}

/** Open ones, which are few, are looked through first. */
async function findWorkItem(store: ClientStore, agentId: string, workItemId: string) {
  for (const open of [true, false])
    for (let after: string | undefined; ; ) {
      const page = { open, ...(after === undefined ? {} : { after }), limit: SEARCHED };
      const items = await store.listWorkItems(agentId, page);
      const item = items.find((each) => each.workItemId === workItemId);
      if (item) return item;
      if (items.length < SEARCHED) break;
      after = items.at(-1)?.workItemId;
    }
  return undefined;
}

const MARKS: Readonly<Record<Todo['state'], string>> = { pending: '[ ]', in_progress: '[>]', completed: '[x]' };

function workItemPage(item: ScheduledWorkItem): string[] {
  const { blockedBy, recheckAt, waitId, resultSummary, todoList } = item;
  const head = [
    ['work item', `${item.workItemId}, revision ${item.revision}`],
    ['state', `${item.schedulingState}${item.current ? ', the one that it has picked' : ''}`],
    ['plan', item.planStatus],
    ...(waitId === null ? [] : [['waits by', waitId]]),
    ...(blockedBy.length === 0 ? [] : [['blocked by', blockedBy.join(', ')]]),
    ...(recheckAt === null ? [] : [['recheck', time(recheckAt)]]),
    ['times', `made ${time(item.createdAt)}, changed ${time(item.updatedAt)}`],
  ];
  return [
    ...table(head),
    '',
    'objective',
    indent(item.objective),
    ...(todoList.length === 0 ? [] : ['', 'todo', ...todoList.map(({ text, state }) => `  ${MARKS[state]} ${text}`)]),
    ...(resultSummary === null ? [] : ['', 'result', indent(resultSummary)]),
  ];
}
