/**
 * The command line as a frame: commands come from builders, each of which adds its own. `workers/agentturn.ts` composes them.
 *
 * Invariants
 * 1. Exit code 0: done; 1: it failed, with a code of the catalogue; 2: the command line itself was wrong, an option or an argument say.
 * 2. With `--json` standard output carries one JSON object and nothing else; `dev` and `worker` print it when they are ready, and one
 *    more line if they fail later; `events` prints one line for each event, `chat` one for each part of its session, and `agents ls
 *    --watch` one for each agent that changes.
 */

import { Command, CommanderError } from 'commander';
import { commandLine, programName } from '../command-line.ts';
import { storeUrl } from './arguments.ts';
import type { CliIo, CommonOptions } from './environment.ts';
import { fail, UsageError } from './failure.ts';

/** What a builder of commands works with. */
export interface Cli {
  readonly program: Command;
  /** Adds a command with the options that every command of a client takes, to the program or to a command of it. */
  command(parent: Command, usage: string, description: string): Command;
  /** As `command`, for one that asks the store alone: an option about a Temporal server would say nothing to it. */
  storeCommand(parent: Command, usage: string, description: string): Command;
  /** As `command`, for one that runs a part of the installation, or looks after all of it: it is for no tenant. */
  processCommand(parent: Command, usage: string, description: string): Command;
  /** Runs the body of a command, reports its failure and keeps its exit code. */
  run(options: CommonOptions, body: () => Promise<number>): Promise<void>;
}

/** Adds some commands. */
export type CommandBuilder = (cli: Cli) => void;

/** What the command line needs before any command runs. */
export interface CliFrame {
  readonly version: string;
  readonly io: CliIo;
}

/** Resolves with the exit code. `argv` is without the program's own name; the commands are listed in the order of their builders. */
export async function runCli(
  argv: readonly string[],
  { version, io }: CliFrame,
  builders: readonly CommandBuilder[],
): Promise<number> {
  let exitCode = 0;
  const program = newProgram(version, io);
  const cli: Cli = {
    program,
    command: addCommand,
    storeCommand: addStoreCommand,
    processCommand: addProcessCommand,
    run: async (options, body) => {
      exitCode = await body().catch((error: unknown) => fail(io, options, error));
    },
  };
  for (const build of builders) build(cli);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return fail(io, {}, error);
    if (error.exitCode === 0) return 0;
    // Commander has said it for people already.
    const message = error.message.replace(/^error: /, '');
    return argv.includes('--json') ? fail(io, { json: true }, new UsageError('invalid_request', message)) : 2;
  }
}

const newProgram = (version: string, io: CliIo): Command =>
  new Command(programName())
    .description('Durable LLM agents on Temporal: one enqueue, one turn, exactly one deliverable.')
    .version(version)
    // What stands behind the name of a command is that command's, though one above it has such an option too.
    .enablePositionalOptions()
    .showHelpAfterError(`(${commandLine('--help')} lists the commands)`)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
      outputError: (text, write) =>
        write(MISPLACED.test(text) ? `${text.trimEnd()}: it goes behind the command\n` : text),
    });

/** An option that every command takes is unknown where it stands before the command. */
const MISPLACED = /unknown option '--(store|temporal|namespace|tenant|json|debug)'/;

/** The command as it is typed, without the program. */
const typed = (command: Command): string =>
  command.parent?.parent ? `${typed(command.parent)} ${command.name()}` : command.name();

const addCommand: Cli['command'] = (parent, usage, description) =>
  forTenant(addProcessCommand(parent, usage, description));

const forTenant = (command: Command): Command =>
  command.option('--tenant <name>', 'what it is for: the agents of this tenant, and no others (AGENTTURN_TENANT)');

const addProcessCommand: Cli['processCommand'] = (parent, usage, description) =>
  withStore(parent, usage, description)
    .configureOutput({ outputError: (text, write) => write(text) })
    .option(
      '--temporal <address>',
      'host:port of the Temporal server (TEMPORAL_ADDRESS; default: a running dev server)',
    )
    .option('--namespace <name>', 'Temporal namespace (TEMPORAL_NAMESPACE; default: default)');

/** An option of other commands that this one would not look at. */
const UNUSED = /unknown option '--(temporal|namespace)'/;

const addStoreCommand: Cli['storeCommand'] = (parent, usage, description) =>
  forTenant(withStore(parent, usage, description));

const withStore: Cli['storeCommand'] = (parent, usage, description) => {
  const command = parent.command(usage);
  return command
    .description(description)
    .showHelpAfterError(`(${commandLine(`${typed(command)} --help`)} says what it takes)`)
    .configureOutput({
      outputError: (text, write) => write(UNUSED.test(text) ? `${text.trimEnd()}: it asks the store alone\n` : text),
    })
    .option(
      '--store <url>',
      'sqlite:PATH or postgres://... (AGENTTURN_STORE; default: sqlite:.agentturn/agentturn.db)',
      storeUrl,
    )
    .option('--json', 'print one JSON object')
    .option('--debug', 'print stacks and details of failures');
};
