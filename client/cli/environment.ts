/** What the commands of a client need from the process they run in; `workers/agentturn.ts` provides it. */

import type { SessionView } from '../../workflows/contract/chat.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { ClientApi } from '../client-api.ts';
import { commandLine } from '../command-line.ts';
import type { Stall, StallReader } from '../stalls.ts';

/** Where a command reads and writes. `out` carries the answer, `err` everything else. */
export interface CliIo {
  out(line: string): void;
  err(line: string): void;
  /** A person watches `err`. */
  readonly live: boolean;
  /** Clears the screen that `out` writes to; left out where nobody watches one. */
  readonly clear?: () => void;
  readStdin(): Promise<string>;
}

/** The terminal of a person who can type: both ends are one, and the cursor can be moved. */
export interface PersonTerminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Whether it may be coloured. */
  readonly colour: boolean;
}

/** The options that every command takes. */
export interface CommonOptions {
  readonly store?: string;
  readonly temporal?: string;
  readonly namespace?: string;
  readonly tenant?: string;
  readonly json?: boolean;
  readonly debug?: boolean;
}

/** The options of a list. */
export interface PageOptions extends CommonOptions {
  /** The list begins behind this entry. */
  readonly after?: string;
  /** How many entries it may have. */
  readonly limit?: number;
}

/** How many entries a list has without `--limit`. */
export const PAGE = 100;

/** Tells a person that there is more, and how to see it; `command` is without the program's name. */
export function tellMore(io: CliIo, command: string, next: string | null): void {
  if (next !== null) io.err(`there are more: ${commandLine(`${command} --after ${next}`)}`);
}

/** A client, and what closes it with its store and its connection. */
export interface OpenedClient {
  readonly client: ClientApi;
  close(): Promise<void>;
}

/** What the commands of a client touch. */
export interface CliEnvironment {
  readonly io: CliIo;
  /** Where a person types; null where nobody does. */
  terminal(): PersonTerminal | null;
  /** Opens the store alone, which must exist already: enough to read. */
  openStore(options: CommonOptions): Promise<ClientStore>;
  /** Opens the store, which must exist already, and connects to the server. */
  openClient(options: CommonOptions): Promise<OpenedClient>;
  /** Why a turn of the store does not go on; asks the Temporal server too. Errors: those of `findStall`, `store_mismatch`. */
  findStall(
    store: StallReader & Pick<ClientStore, 'identity'>,
    agentTurnId: string,
    options: CommonOptions,
  ): Promise<Stall | null>;
  /** Writes the journals of all sessions anew from the store, or that of one, and tells where. Errors: `journal_unavailable`. */
  writeJournals(
    store: ClientStore,
    session: SessionView | undefined,
    options: CommonOptions,
  ): Promise<{ readonly folder: string; readonly sessions: number; readonly kept: readonly string[] }>;
  /** Fires at the first Ctrl-C, which from this call on does not end the process; the second one does. */
  interruption(): AbortSignal;
}

/** A client for the one command, closed when it is done. */
export async function connected(
  { openClient }: CliEnvironment,
  options: CommonOptions,
  body: (opened: OpenedClient) => Promise<number>,
): Promise<number> {
  const opened = await openClient(options);
  try {
    return await body(opened);
  } finally {
    await opened.close();
  }
}
