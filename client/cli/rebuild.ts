/** `rebuild`: what is kept to be read quickly, or beside the store, is built anew from the rows that decide (A5, C9). */
import { everyAgent } from '../agent-pages.ts';
import { noAgent } from './control.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';

/** The options of `rebuild`. */
export interface RebuildOptions extends CommonOptions {
  /** Whether journals are written anew, instead of what the store keeps. */
  readonly journal?: boolean;
}

/** Builds one agent anew, or all of them one by one, and prints those that were wrong. Errors: `agent_not_found`. */
export async function rebuildAgents(
  { io, openStore }: CliEnvironment,
  agentId: string | undefined,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    let seen = 0;
    const items: { readonly agentId: string; readonly wrong: readonly string[] }[] = [];
    const ids = agentId === undefined ? everyAgent(store) : [{ agentId }];
    for await (const { agentId: id } of ids) {
      const wrong = await store.rebuildAgent(id);
      if (wrong === null) throw noAgent(id);
      seen += 1;
      if (wrong.length === 0) continue;
      if (options.json) items.push({ agentId: id, wrong });
      else io.out(`${id}: ${wrong.join(', ')}`);
    }
    if (options.json) io.out(JSON.stringify({ agents: seen, items }));
    else io.out(`${seen} ${seen === 1 ? 'agent' : 'agents'} looked at`);
    return 0;
  } finally {
    await store.close();
  }
}

/** Writes the journals of all chat sessions anew from the store, or that of one (C9). Errors: `agent_not_found`, `journal_unavailable`. */
export async function rebuildJournals(
  { io, openStore, writeJournals }: CliEnvironment,
  agentId: string | undefined,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const session = agentId === undefined ? undefined : await store.getSession(agentId);
    if (session === null) throw noAgent(agentId ?? '');
    const { folder, sessions, kept } = await writeJournals(store, session, options);
    if (options.json) io.out(JSON.stringify({ journal: folder, sessions, kept }));
    else io.out(`${sessions} ${sessions === 1 ? 'journal' : 'journals'} written in ${folder}`);
    for (const path of kept) io.err(`what was there before, and says something else, is kept as ${path}`);
    return 0;
  } finally {
    await store.close();
  }
}
