/** The commands of a client: requests, turns, questions, agents, events. */
import { type Command, Option } from 'commander';
import { RESULT_STATUSES } from '../../workflows/protocol/cards.ts';
import { OPEN_STATUSES, PRIORITIES, TERMINAL_STATUSES } from '../../workflows/protocol/turn.ts';
import { addAgents, addAgentWork, REASON } from './agent-commands.ts';
import { type ApprovalsOptions, type ApproveOptions, approve, changeBudgets, printApprovals } from './approvals.ts';
import { pageSize, pastTime, seconds, sequence } from './arguments.ts';
import { addChats } from './chat-commands.ts';
import type { Cli, CommandBuilder } from './cli.ts';
import { breakOffCommand, type StopOptions, sendSteer, stopTurnCommand } from './control.ts';
import { type EnqueueOptions, enqueue, runOnce } from './enqueue.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';
import { type EventsCommandOptions, printEvents } from './events.ts';
import { type InboxOptions, printInbox } from './inbox.ts';
import { printTree } from './tree.ts';
import { type CostOptions, printCosts, printTurns, type TurnListOptions } from './turn-list.ts';
import { printTurn, reportToolResult, type ToolResultOptions, type TurnShowOptions } from './turns.ts';

/** What they touch comes from `environment`. */
export const clientCommands =
  (environment: CliEnvironment): CommandBuilder =>
  (cli) => {
    addChats(cli, environment);
    addRequests(cli, environment);
    addTurns(cli, environment);
    addTurnLists(cli, environment);
    addApprovals(cli, environment);
    addAgents(cli, environment);
    addAgentWork(cli, environment);
    addEvents(cli, environment);
  };

function addRequests({ program, command, run }: Cli, environment: CliEnvironment): void {
  const once = command(
    program,
    'run <profile> <instruction>',
    'Run one turn of a new agent; "-" reads it from standard input.',
  );
  requestOptions(once).action((profile: string, instruction: string, options: EnqueueOptions) =>
    run(options, () => runOnce(environment, profile, instruction, options)),
  );
  const queue = command(
    program,
    'enqueue <agent> <instruction>',
    'Queue one request for an agent, which remembers its turns.',
  );
  requestOptions(queue)
    .option('--profile <name>', 'agent definition of the app (default: the one of its first request)')
    .option('--ui-action', 'do not wait in the inbox: refused as agent_busy unless the agent is idle')
    .action((agent: string, instruction: string, options: EnqueueOptions) =>
      run(options, () => enqueue(environment, agent, instruction, options)),
    );
}

const requestOptions = (command: Command): Command =>
  command
    .option('--key <key>', 'idempotency key: the same call again gives the same turn')
    .addOption(new Option('--priority <lane>', 'lane of the inbox').choices(PRIORITIES))
    .option('--result-fields <json>', 'fields the result must have, e.g. {"fields":[{"name":"answer"}]}')
    .option('--criterion <text...>', 'what must be true of the result; shown to the model in every step')
    .option('--context <file...>', 'files the turn may read')
    .option('--metadata <pair...>', 'KEY=VALUE kept with the request')
    .option('--wait', 'wait for the turn to end and print its deliverable')
    .option('--timeout <seconds>', 'how long to wait', seconds);

const BREAK_OFF = {
  interrupt: 'End a turn now, so that its agent goes on with what came meanwhile.',
  rollback: 'End a turn now, and leave it out of what its agent remembers.',
} as const;

function addTurns({ program, command, storeCommand, run }: Cli, environment: CliEnvironment): void {
  const turn = program.command('turn').description('Look at turns, stop and steer them.');
  command(turn, 'show <turn>', 'Show a turn: steps, tools, tokens, waiting calls, deliverable.')
    .option('--full', 'and the whole conversation: what was asked, said, called and answered')
    .action((turnId: string, options: TurnShowOptions) => run(options, () => printTurn(environment, turnId, options)));
  storeCommand(turn, 'tree <turn>', 'Draw what a request caused: its calls, and the turns it enqueued.').action(
    (turnId: string, options: CommonOptions) => run(options, () => printTree(environment, turnId, options)),
  );
  command(turn, 'stop <turn>', 'End a turn now, queued or running.')
    .option(...REASON)
    .action((turnId: string, options: StopOptions) =>
      run(options, () => stopTurnCommand(environment, turnId, options)),
    );
  for (const how of ['interrupt', 'rollback'] as const)
    command(turn, `${how} <turn>`, BREAK_OFF[how])
      .option(...REASON)
      .action((turnId: string, options: StopOptions) =>
        run(options, () => breakOffCommand(environment, how, turnId, options)),
      );
  command(turn, 'steer <turn> <text>', 'Tell a running turn something; "-" reads it from standard input.')
    .option('--key <key>', 'the same message again with the same key counts once')
    .action((turnId: string, text: string, options: CommonOptions) =>
      run(options, () => sendSteer(environment, turnId, text, options)),
    );
  command(turn, 'budgets <turn> <json>', 'Give a running turn new budgets, e.g. {"maxTokens":2000000}.').action(
    (turnId: string, budgets: string, options: CommonOptions) =>
      run(options, () => changeBudgets(environment, turnId, budgets, options)),
  );
  command(program, 'tool-result <turn> <call>', 'Answer a call that waits for a result from outside.')
    .addOption(
      new Option('--status <status>', 'how the call ended; running moves its deadline').choices([
        ...RESULT_STATUSES,
        'running',
      ]),
    )
    .option('--result <json>', 'the result')
    .addOption(new Option('--card <id>', 'a card that holds the result, written before').conflicts('result'))
    .option('--error <message>', 'why there is none')
    .action((turnId: string, callId: string, options: ToolResultOptions) =>
      run(options, () => reportToolResult(environment, turnId, callId, options)),
    );
}

function addTurnLists({ program, storeCommand, run }: Cli, environment: CliEnvironment): void {
  const turns = program.command('turns').description('Look at the turns of all agents.');
  storeCommand(turns, 'ls', 'List turns, the newest first.')
    .addOption(
      new Option('--status <status>', 'only these').choices(['open', 'ended', ...OPEN_STATUSES, ...TERMINAL_STATUSES]),
    )
    .option('--profile <name>', 'only of this profile')
    .option('--agent <agent>', 'only of this agent')
    .option('--since <time>', 'accepted since then: 90m, 24h, 7d ago, or a date', pastTime)
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <place>', 'those behind this one, as the page before has told')
    .action((options: TurnListOptions) => run(options, () => printTurns(environment, options)));
  storeCommand(turns, 'costs', 'Add up what turns spent.')
    .addOption(new Option('--by <what>', 'a line for each').choices(['agent', 'profile']).default('profile'))
    .addOption(
      new Option('--since <time>', 'accepted since then: 90m, 24h, 7d ago, or a date')
        .argParser(pastTime)
        .default(pastTime('24h'), '24h ago'),
    )
    .option('--limit <number>', 'so many lines at most (default: 100)', pageSize)
    .action((options: CostOptions) => run(options, () => printCosts(environment, options)));
}

function addApprovals({ program, command, storeCommand, run }: Cli, environment: CliEnvironment): void {
  storeCommand(program, 'inbox', 'List all that waits for an answer from outside, with the commands that answer it.')
    .option('--agent <agent>', 'only of this agent')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <place>', 'those behind this one, as the page before has told')
    .action((options: InboxOptions) => run(options, () => printInbox(environment, options)));
  storeCommand(
    program,
    'approvals',
    'List what waits for a person: calls that need approval, budgets that are used up.',
  )
    .option('--turn <turn>', 'only of this turn and of all it delegated')
    .option('--agent <agent>', 'only of this agent')
    .option('--all', 'answered ones too')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <place>', 'those behind this one, as the page before has told')
    .action((options: ApprovalsOptions) => run(options, () => printApprovals(environment, options)));
  command(program, 'approve <call>', 'Answer one: let the call run, deny it, or extend the budget.')
    .option('--deny', 'it must not run')
    .option('--by <name>', 'who answers (default: the user of this machine)')
    .option('--reason <text>', 'the model reads it when the call is denied')
    .option('--arguments <json>', 'run the call with these arguments instead')
    .option('--budgets <json>', 'the new budgets, e.g. {"maxSteps":100}')
    .option('--turn <turn>', 'the turn that asks; needed only for budgets')
    .action((callId: string, options: ApproveOptions) => run(options, () => approve(environment, callId, options)));
}

function addEvents({ program, storeCommand, run }: Cli, environment: CliEnvironment): void {
  storeCommand(program, 'events', 'Print the events of an agent or a turn, one line each, oldest first.')
    .addOption(new Option('--agent <agent>', 'all events of this agent').conflicts('turn'))
    .option('--turn <turn>', 'the events of this turn')
    .option('--after <seq>', 'only events above this seq, the last one handled', sequence)
    .option('--follow', "go on with what comes: until Ctrl-C, or the end of --turn's turn")
    .action((options: EventsCommandOptions, self: Command) => {
      if (options.agent === undefined && options.turn === undefined) {
        self.error("error: one of the options '--agent <agent>' and '--turn <turn>' is required");
      }
      return run(options, () => printEvents(environment, options));
    });
}
