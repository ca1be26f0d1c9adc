/** How people call the command line. */

/** Sources run by npm's script of a clone; what has been compiled is an installed package, whose program npx finds. */
const PROGRAM = import.meta.url.endsWith('.ts') ? 'npm run agentturn --' : 'npx agentturn';

/** The program alone, as it begins each line of help. */
export const programName = (): string => PROGRAM;

/** A command with its arguments, as a person types it where this file runs. */
export const commandLine = (args: string): string => `${PROGRAM} ${args}`;
