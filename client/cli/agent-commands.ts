/** The commands of agents, their work, their waits and their triggers. */
import { type Command, Option } from 'commander';
import { POSTURES } from '../../workflows/agent-state/posture.ts';
import { AGENT_STATUSES } from '../../workflows/agent-state/status.ts';
import { type AgentListOptions, printAgent, printAgents } from './agents.ts';
import { pageSize } from './arguments.ts';
import type { Cli } from './cli.ts';
import { type StopOptions, startAgent, stopAgent, type WakeOptions, wakeAgentCommand } from './control.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';
import { type RebuildOptions, rebuildAgents, rebuildJournals } from './rebuild.ts';
import { makeTrigger, printTriggers, revokeTriggerCommand } from './triggers.ts';
import { printWaits, printWorkItem, printWorkItems, type WorkListOptions } from './work.ts';

/** The option of commands that end a turn. */
export const REASON = ['--reason <text>', 'kept with the turn that it ends'] as const;

/** Adds `agents`. */
export function addAgents({ program, command, storeCommand, run }: Cli, environment: CliEnvironment): void {
  const agents = program.command('agents').description('Look at agents, stop, start and wake them.');
  storeCommand(agents, 'ls', 'List the agents of the store, with what each is at and why.')
    .addOption(new Option('--posture <posture>', 'only those that are at this').choices(POSTURES))
    .addOption(new Option('--status <status>', 'only those that do this').choices(AGENT_STATUSES))
    .option('--profile <name>', 'only of this profile')
    .addOption(new Option('--all', 'also one-shot agents whose turn has ended').conflicts('oneShot'))
    .option('--one-shot', 'only one-shot agents whose turn has ended')
    .option('--watch', 'show what changes, until Ctrl-C')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <agent>', 'those behind this one')
    .action((options: AgentListOptions) => run(options, () => printAgents(environment, options)));
  storeCommand(agents, 'get <agent>', 'Show what an agent is at: its work, what it waits for, its last turns.').action(
    (agentId: string, options: CommonOptions) => run(options, () => printAgent(environment, agentId, options)),
  );
  command(agents, 'stop <agent>', 'Refuse requests for an agent from now on, and end its active turn.')
    .option(...REASON)
    .action((agentId: string, options: StopOptions) => run(options, () => stopAgent(environment, agentId, options)));
  command(agents, 'start <agent>', 'Accept requests again, and run what is queued.').action(
    (agentId: string, options: CommonOptions) => run(options, () => startAgent(environment, agentId, options)),
  );
  command(agents, 'wake <agent> <reason>', 'Make an agent go on, with a reason; "-" reads it from standard input.')
    .option('--key <key>', 'the same reason again with the same key counts once')
    .action((agentId: string, reason: string, options: WakeOptions) =>
      run(options, () => wakeAgentCommand(environment, agentId, reason, options)),
    );
  storeCommand(
    program,
    'rebuild [agent]',
    'Build anew what is kept of agents to be read quickly: counts, sums, times, statuses.',
  )
    .option('--journal', 'write the journals of chat sessions anew instead, in AGENTTURN_JOURNAL or the data folder')
    .action((agentId: string | undefined, options: RebuildOptions) =>
      run(options, () => (options.journal ? rebuildJournals : rebuildAgents)(environment, agentId, options)),
    );
}

/** Adds `work`, `waits` and `triggers`. */
export function addAgentWork({ program, storeCommand, run }: Cli, environment: CliEnvironment): void {
  const work = program.command('work').description('Look at the work items of an agent.');
  listOptions(
    storeCommand(work, 'ls <agent>', 'List open work items, each with whether it can be gone on with.'),
  ).action((agentId: string, options: WorkListOptions) =>
    run(options, () => printWorkItems(environment, agentId, options)),
  );
  storeCommand(work, 'show <agent> <item>', 'Show a work item: objective, plan, what it waits for, result.').action(
    (agentId: string, itemId: string, options: CommonOptions) =>
      run(options, () => printWorkItem(environment, agentId, itemId, options)),
  );
  const waits = program.command('waits').description('Look at what an agent waits for between its turns.');
  listOptions(storeCommand(waits, 'ls <agent>', 'List waits with their deadlines.')).action(
    (agentId: string, options: WorkListOptions) => run(options, () => printWaits(environment, agentId, options)),
  );
  const triggers = program.command('triggers').description('Let something outside wake an agent.');
  listOptions(storeCommand(triggers, 'ls <agent>', 'List triggers in use, without their tokens.')).action(
    (agentId: string, options: WorkListOptions) => run(options, () => printTriggers(environment, agentId, options)),
  );
  storeCommand(
    triggers,
    'create <agent> <name>',
    'Make a trigger, and print the path that wakes the agent, once.',
  ).action((agentId: string, name: string, options: CommonOptions) =>
    run(options, () => makeTrigger(environment, agentId, name, options)),
  );
  storeCommand(triggers, 'revoke <agent> <trigger>', 'Make the token of a trigger worthless, for good.').action(
    (agentId: string, triggerId: string, options: CommonOptions) =>
      run(options, () => revokeTriggerCommand(environment, agentId, triggerId, options)),
  );
}

const listOptions = (command: Command): Command =>
  command
    .option('--all', 'also what is over')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <id>', 'those behind this one');
