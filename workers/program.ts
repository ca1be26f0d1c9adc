/** The process behind `agentturn`: it hands the command line its world. */
import { text } from 'node:stream/consumers';
import type { CliIo, PersonTerminal } from '../client/cli/environment.ts';
import { agentturn } from './agentturn.ts';
import { Interrupt } from './commands/interrupt.ts';

/** Clears the terminal and goes to its first line. */
const CLEAR = '\u001b[2J\u001b[H';

const io: CliIo = {
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  live: Boolean(process.stderr.isTTY),
  ...(process.stdout.isTTY ? { clear: () => void process.stdout.write(CLEAR) } : {}),
  readStdin: () => text(process.stdin),
};

/** A terminal that calls itself dumb has no cursor that could be moved. */
function terminal(): PersonTerminal | null {
  const { stdin: input, stdout: output } = process;
  if (!input.isTTY || !output.isTTY || process.env.TERM === 'dumb') return null;
  return { input, output, colour: output.hasColors() };
}

// A reader that went away (`agentturn agents ls | head -1`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

const interruption = () => new Interrupt().signal;
// Said and done: nothing that still waits in the background, a reader of the terminal say, keeps the process.
process.exit(await agentturn(process.argv.slice(2), { io, terminal, interruption, env: process.env }));
