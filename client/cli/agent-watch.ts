/** `agents ls --watch`: a list of agents for as long as somebody watches it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../../workflows/contract/store.ts';
import type { AgentView } from '../../workflows/contract/views.ts';
import { Change } from '../event-tail.ts';
import type { CliIo } from './environment.ts';

/** However much happens, the list is read so often and not more, ms. */
const PAUSE_MS = 500;

/** Where the list is shown, and until when. */
export interface Watching {
  readonly io: CliIo;
  readonly store: Pick<Backend, 'changed'>;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Shows each agent that has changed as JSON, on a line of its own. */
  readonly json: boolean;
}

/** Shows the list, and whatever changes of it: drawn anew on a terminal, as further lines elsewhere. Resolves when the signal has fired. */
export async function watchAgents(
  { io, store, signal, json }: Watching,
  read: () => Promise<readonly AgentView[]>,
  lines: (agents: readonly AgentView[]) => readonly string[],
): Promise<void> {
  const change = new Change(store, signal);
  const show = json ? new JsonLines(io) : io.clear ? new Screen(io, io.clear, lines) : new TextLines(io, lines);
  do {
    change.watch();
    show.next(await read());
    await change.seen();
    await sleep(PAUSE_MS, undefined, { signal }).catch(() => {});
  } while (!signal.aborted);
}

class Screen {
  readonly #io: CliIo;
  readonly #clear: () => void;
  readonly #lines: (agents: readonly AgentView[]) => readonly string[];
  #shown = '';

  constructor(io: CliIo, clear: () => void, lines: (agents: readonly AgentView[]) => readonly string[]) {
    this.#io = io;
    this.#clear = clear;
    this.#lines = lines;
  }

  next(agents: readonly AgentView[]): void {
    const text = this.#lines(agents).join('\n');
    if (text === this.#shown) return;
    this.#clear();
    this.#io.out(text);
    this.#shown = text;
  }
}

/** What differs between two lists. */
class Differences {
  #before: ReadonlyMap<string, string> | null = null;

  next(agents: readonly AgentView[]) {
    const before = this.#before;
    const now = new Map(agents.map((agent) => [agent.agentId, JSON.stringify(agent)]));
    this.#before = now;
    return {
      isFirst: before === null,
      changed: agents.filter(({ agentId }) => before?.get(agentId) !== now.get(agentId)),
      /** Ids of those that were in the list and are not any more. */
      gone: [...(before?.keys() ?? [])].filter((agentId) => !now.has(agentId)),
    };
  }
}

class JsonLines {
  readonly #io: CliIo;
  readonly #differences = new Differences();

  constructor(io: CliIo) {
    this.#io = io;
  }

  next(agents: readonly AgentView[]): void {
    const { changed, gone } = this.#differences.next(agents);
    for (const agent of changed) this.#io.out(JSON.stringify(agent));
    for (const agentId of gone) this.#io.out(JSON.stringify({ agentId, gone: true }));
  }
}

class TextLines {
  readonly #io: CliIo;
  readonly #lines: (agents: readonly AgentView[]) => readonly string[];
  readonly #differences = new Differences();

  constructor(io: CliIo, lines: (agents: readonly AgentView[]) => readonly string[]) {
    this.#io = io;
    this.#lines = lines;
  }

  next(agents: readonly AgentView[]): void {
    const { isFirst, changed, gone } = this.#differences.next(agents);
    if (isFirst) for (const line of this.#lines(agents)) this.#io.out(line);
    else if (changed.length > 0) for (const line of this.#lines(changed).slice(1)) this.#io.out(line);
    for (const agentId of gone) this.#io.out(`${agentId}  is not in the list any more`);
  }
}
