/** What the command line needs from the process it runs in; `workers/main.ts` provides it. */
import type { ClientStore } from '../../workflows/protocol/store.ts';
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
  dev(options: DevOptions): Promise<number>;
  worker(options: WorkerOptions): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  demoWorker(options: DemoWorkerOptions): Promise<number>;
}
