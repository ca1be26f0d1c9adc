/** `rebuild`: what is kept of agents to be read quickly is built anew from the rows that decide (A5). */
import { everyAgent } from '../agent-pages.ts';
import { noAgent } from './control.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';

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
