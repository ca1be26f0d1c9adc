/** `agents ls` and `agents get`. */
import type { AgentSchedulingPosture } from '../../workflows/agent-state/posture.ts';
import type { AgentStatus } from '../../workflows/agent-state/status.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { AgentFilter, AgentView } from '../../workflows/contract/views.ts';
import { commandLine } from '../command-line.ts';
import { agentPage } from './agent-page.ts';
import { watchAgents } from './agent-watch.ts';
import { noAgent } from './control.ts';
import { type CliEnvironment, type CommonOptions, PAGE, type PageOptions, tellMore } from './environment.ts';
import { counted, shortened, table, time } from './format.ts';
import { heldQueue } from './held-queue.ts';

const NO_AGENTS = 'no agents yet: an agent is there from its first enqueue on';
const NONE_FIT = 'no such agents';
const LAST_TURNS = 10;
const REASON_CHARACTERS = 80;

/** The options of `agents ls`. */
export interface AgentListOptions extends PageOptions {
  readonly posture?: AgentSchedulingPosture;
  readonly status?: AgentStatus;
  readonly profile?: string;
  /** One-shot agents whose turn has ended, too. */
  readonly all?: boolean;
  /** Only one-shot agents whose turn has ended. */
  readonly oneShot?: boolean;
  /** Shows what changes until Ctrl-C. */
  readonly watch?: boolean;
}

/** `agents ls`: a page of agents, once or for as long as somebody watches. Resolves with the exit code. */
export async function printAgents(environment: CliEnvironment, options: AgentListOptions): Promise<number> {
  const { io, openStore, interruption } = environment;
  const { json = false, watch = false, limit = PAGE } = options;
  const store = await openStore(options);
  try {
    const read = () => pageOf(store, options);
    const hidden = json ? 0 : await leftOut(store, options);
    if (watch) {
      await watchAgents(
        { io, store, signal: interruption(), json },
        async () => (await read()).agents,
        linesOf(options, hidden),
      );
      return 0;
    }
    const { agents, next } = await read();
    if (json) io.out(JSON.stringify({ items: agents, next }));
    else for (const line of linesOf(options, hidden)(agents)) io.out(line);
    if (!json) tellMore(io, `agents ls${filterOf(options)} --limit ${limit}`, next);
    if (hidden > 0) io.err(hiddenText(hidden, options));
    return 0;
  } finally {
    await store.close();
  }
}

interface AgentList {
  readonly agents: readonly AgentView[];
  /** What the next page begins behind; null for the last one. */
  readonly next: string | null;
}

async function pageOf(store: ClientStore, options: AgentListOptions): Promise<AgentList> {
  const { after, limit = PAGE } = options;
  const page = { ...(after === undefined ? {} : { after }), limit: limit + 1 };
  const found = await store.listAgents({ ...searchOf(options), ...page });
  const agents = found.slice(0, limit);
  return { agents, next: found.length > limit ? (agents.at(-1)?.agentId ?? null) : null };
}

const searchOf = ({ posture, status, profile, all, oneShot }: AgentListOptions): AgentFilter => ({
  ...(posture === undefined ? {} : { posture }),
  ...(status === undefined ? {} : { agentStatus: status }),
  ...(profile === undefined ? {} : { profile }),
  ...(all ? { oneShot: 'with' } : oneShot ? { oneShot: 'only' } : {}),
});

/** How many one-shot agents the list leaves out that fit it otherwise. */
const leftOut = async (store: ClientStore, options: AgentListOptions): Promise<number> =>
  options.all || options.oneShot ? 0 : store.countAgents({ ...searchOf(options), oneShot: 'only' });

const hiddenText = (hidden: number, options: AgentListOptions): string =>
  `${counted(hidden, 'one-shot agent')} whose turn has ended ${hidden === 1 ? 'is' : 'are'} left out: ${commandLine(`agents ls${filterOf(options)} --all`)}`;

/** The options of the list as they were given, for the command that shows the next page. */
const filterOf = ({ posture, status, profile, all, oneShot }: AgentListOptions): string =>
  [
    ...Object.entries({ posture, status, profile }).map(([name, value]) =>
      value === undefined ? '' : ` --${name} ${value}`,
    ),
    all ? ' --all' : '',
    oneShot ? ' --one-shot' : '',
  ].join('');

/** The lines of a list, or a sentence where it is empty. */
const linesOf =
  (options: AgentListOptions, hidden: number) =>
  (agents: readonly AgentView[]): readonly string[] => {
    if (agents.length > 0) return table([HEADS, ...agents.map(agentRow)]);
    if (options.after !== undefined) return [`no agents behind ${options.after}`];
    return [filterOf(options) === '' && hidden === 0 ? NO_AGENTS : NONE_FIT];
  };

const HEADS = ['AGENT', 'PROFILE', 'POSTURE', 'STATUS', 'QUEUED', 'WAITING', 'CHANGED', 'ACTIVE TURN', 'WHY'];

const agentRow = (agent: AgentView): string[] => [
  agent.agentId,
  agent.profile,
  agent.posture.posture,
  statusOf(agent),
  String(agent.queuedTurns),
  String(agent.waitingToolCount),
  time(agent.updatedAt),
  agent.activeAgentTurnId ?? '-',
  shortened(agent.posture.reason, REASON_CHARACTERS),
];

const statusOf = ({ agentStatus, status, waitingForWorkers }: AgentView): string =>
  [
    agentStatus,
    ...(status === 'idle' ? [] : [status]),
    ...(waitingForWorkers === null ? [] : [`waiting for workers of ${waitingForWorkers.workerTarget}`]),
  ].join(', ');

/** `agents get`: what an agent is at, and its last turns. Resolves with the exit code. Errors: `agent_not_found`. */
export async function printAgent(
  { io, openStore }: CliEnvironment,
  agentId: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const summary = await store.agentSummary(agentId);
    if (!summary) throw noAgent(agentId);
    const held = await heldQueue(store, agentId);
    if (options.json) io.out(JSON.stringify({ ...summary, held }));
    else
      for (const line of agentPage(summary, await store.listTurns(agentId, { last: LAST_TURNS }), held)) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}
