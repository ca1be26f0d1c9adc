/** Commands of `agentturn` in this process: what they print, and their exit codes. For signals and pipes there is processes.ts. */
import { agentturn } from '../../../workers/agentturn.ts';
import { type Finished, keptEnvironment } from './processes.ts';

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** What stands on standard input. */
  readonly input?: string;
  /** The folder in which it runs: one such command at a time. */
  readonly cwd?: string;
}

export type RunCommand = (args: readonly string[], more?: CommandOptions) => Promise<Finished>;

/** Runs commands with this environment and nothing else of this process's. */
export const commandsIn =
  (place: Readonly<Record<string, string>>): RunCommand =>
  async (args, { env = {}, input = '', cwd = process.cwd() } = {}) => {
    const [out, err]: [string[], string[]] = [[], []];
    const text = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
    const folder = process.cwd();
    process.chdir(cwd);
    try {
      const code = await agentturn(args, {
        env: { ...keptEnvironment(), ...place, ...env },
        io: {
          out: (line) => out.push(line),
          err: (line) => err.push(line),
          live: false,
          readStdin: async () => input,
        },
        terminal: () => null,
        interruption: () => new AbortController().signal,
      });
      return { code, stdout: text(out), stderr: text(err) };
    } finally {
      process.chdir(folder);
    }
  };
