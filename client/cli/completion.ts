/** `completion`: what shells need to complete the words of this command line. */
import tab from '@bomb.sh/tab/commander';
import type { CommandBuilder } from './cli.ts';

/** The name of the program's file, by which a shell knows what to complete. */
const FILE = 'agentturn';

/**
 * Adds `completion`, and the hidden command that the script it prints asks for words. It is the last builder: what is added after it is
 * not completed.
 */
export const completionCommand: CommandBuilder = ({ program }) => {
  const shown = program.name();
  program.name(FILE);
  tab(program, { completionCommandName: 'completion' });
  program.name(shown);
};
