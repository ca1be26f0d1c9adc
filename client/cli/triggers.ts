/** `triggers ls`, `triggers create` and `triggers revoke`: ways in which something outside can wake an agent. */
import { CodedError } from '../../workflows/protocol/failures.ts';
import { StoredTriggers } from '../agent-triggers.ts';
import { commandLine } from '../command-line.ts';
import { triggerRows } from './agent-tables.ts';
import { noAgent } from './control.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';
import { printWorkList, type WorkListOptions } from './work.ts';

/** `triggers ls`: triggers of an agent, without their tokens. Resolves with the exit code. Errors: `agent_not_found`. */
export const printTriggers = (environment: CliEnvironment, agentId: string, options: WorkListOptions) =>
  printWorkList(environment, agentId, options, {
    command: 'triggers ls',
    empty: `no triggers; ${commandLine(`triggers create ${agentId} NAME`)} makes one`,
    read: (store, agent, page) => store.listTriggers(agent, page),
    id: ({ triggerId }) => triggerId,
    rows: triggerRows,
  });

/** `triggers create`: makes a trigger and prints its path once. Resolves with the exit code. Errors: `agent_not_found`, `invalid_request`. */
export async function makeTrigger(
  { io, openStore }: CliEnvironment,
  agentId: string,
  name: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    if (!(await store.getAgent(agentId))) throw noAgent(agentId);
    const made = await new StoredTriggers(store, agentId).create({ name });
    io.out(options.json ? JSON.stringify(made) : made.path);
    if (!options.json)
      io.err(`${made.triggerId}: whoever POSTs to this path of a gateway wakes ${agentId}; it is not shown again`);
    return 0;
  } finally {
    await store.close();
  }
}

/** `triggers revoke`: makes a token worthless, for good. Resolves with the exit code. Errors: `agent_not_found`, `not_found`. */
export async function revokeTriggerCommand(
  { io, openStore }: CliEnvironment,
  agentId: string,
  triggerId: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    if (!(await store.getAgent(agentId))) throw noAgent(agentId);
    if (!(await new StoredTriggers(store, agentId).revoke(triggerId))) {
      const cure = `${commandLine(`triggers ls ${agentId}`)} shows those it has`;
      throw new CodedError('not_found', `agent ${agentId} has no trigger ${triggerId}; ${cure}`);
    }
    const answer = { agentId, triggerId, revoked: true };
    io.out(options.json ? JSON.stringify(answer) : `${triggerId} is revoked: its token wakes nobody any more`);
    return 0;
  } finally {
    await store.close();
  }
}
