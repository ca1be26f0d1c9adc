/** The agents of a store, of which a page is held at a time. */
import type { AgentFilter, AgentView, ReadStore } from '../workflows/contract/views.ts';

const PAGE = 1_000;

/** By id. Agents that appear meanwhile are among them or not. */
export async function* everyAgent(
  store: Pick<ReadStore, 'listAgents'>,
  filter: AgentFilter = {},
): AsyncGenerator<AgentView, void> {
  for (let after: string | undefined; ; ) {
    const page = await store.listAgents({ ...filter, ...(after === undefined ? {} : { after }), limit: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.agentId;
  }
}
