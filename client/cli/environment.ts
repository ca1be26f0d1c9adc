/** What the command line needs from the process it runs in; `workers/main.ts` provides it. */
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { Violation } from '../../workflows/contract/views.ts';
import type { AgentClient } from '../agent-client.ts';

/** Where a command reads and writes. `out` carries the answer, `err` everything else. */
export interface CliIo {
  out(line: string): void;
  err(line: string): void;
  /** A person watches `err`. */
  readonly live: boolean;
  readStdin(): Promise<string>;
}

export interface CommonOptions {
  readonly store?: string;
  readonly temporal?: string;
  readonly namespace?: string;
  readonly json?: boolean;
  readonly debug?: boolean;
}

/** Of a list: what it begins behind, and how long it may be. */
export interface PageOptions extends CommonOptions {
  readonly after?: string;
  readonly limit?: number;
}

/** A list without `--limit`. */
export const PAGE = 100;

/** Tells a person that there is more, and how to see it. */
export function tellMore(io: CliIo, command: string, next: string | null): void {
  if (next !== null) io.err(`there are more: ${command} --after ${next}`);
}

export interface AppOptions extends CommonOptions {
  readonly app?: string;
}

export interface DevOptions extends AppOptions {
  readonly port?: number;
  readonly uiPort?: number;
  readonly dataDir?: string;
}

export interface WorkerOptions extends AppOptions {
  readonly targets?: readonly string[];
}

export interface DemoOptions extends CommonOptions {
  readonly question?: string;
  readonly dir?: string;
  readonly dataDir?: string;
  readonly crash?: boolean;
  readonly answer?: 'yes' | 'no';
  readonly keep?: boolean;
}

/** The options of a demo worker come from the demo, which starts it as a child. */
export interface DemoWorkerOptions extends CommonOptions {
  readonly dataDir: string;
  readonly modelUrl?: string;
}

export interface VerifyOptions extends CommonOptions {
  /** Seconds: what is out of step between store and server for less is still on its way. */
  readonly olderThan?: number;
}

/** What `verify` looked at in store and Temporal. */
export interface Verification {
  /** Checks that this server cannot answer, each with the reason. */
  readonly unchecked: readonly string[];
  readonly turns: number;
  readonly agents: number;
}

export interface OpenedClient {
  readonly client: AgentClient;
  close(): Promise<void>;
}

/** Commands that are processes of their own resolve with their exit code. */
export interface CliEnvironment {
  readonly version: string;
  readonly io: CliIo;
  /** The store alone, which must exist already: enough to read. */
  openStore(options: CommonOptions): Promise<ClientStore>;
  openClient(options: CommonOptions): Promise<OpenedClient>;
  /** For commands about what is in a store already: a mistyped path is an error, not a new and empty store. */
  openExistingClient(options: CommonOptions): Promise<OpenedClient>;
  /** Fires at the first Ctrl-C, which from this call on does not end the process; the second one does. */
  interruption(): AbortSignal;
  /** `tell` gets what is wrong, a page at a time. */
  verify(options: VerifyOptions, tell: (found: readonly Violation[]) => void): Promise<Verification>;
  dev(options: DevOptions): Promise<number>;
  worker(options: WorkerOptions): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  demoWorker(options: DemoWorkerOptions): Promise<number>;
}

/** A client for the one command, closed when it is done. */
export async function connected(
  { openExistingClient }: CliEnvironment,
  options: CommonOptions,
  body: (opened: OpenedClient) => Promise<number>,
): Promise<number> {
  const opened = await openExistingClient(options);
  try {
    return await body(opened);
  } finally {
    await opened.close();
  }
}
