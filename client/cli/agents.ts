/** `agents ls` and `agents get`. */
import type { AgentView, TurnView } from '../../workflows/contract/views.ts';
import { noAgent } from './control.ts';
import { type CliEnvironment, type CommonOptions, PAGE, type PageOptions, tellMore } from './environment.ts';
import { counted, duration, shortened, table, time } from './format.ts';
import { type HeldQueue, heldQueue, heldText } from './held-queue.ts';

const NO_AGENTS = 'no agents yet: an agent is there from its first enqueue on';
const LAST_TURNS = 10;
const ASKED_CHARACTERS = 60;

/** `agents ls`: a page of agents. Resolves with the exit code. */
export async function printAgents({ io, openStore }: CliEnvironment, options: PageOptions): Promise<number> {
  const { after, limit = PAGE } = options;
  const store = await openStore(options);
  try {
    const found = await store.listAgents({ ...(after === undefined ? {} : { after }), limit: limit + 1 });
    const agents = found.slice(0, limit);
    const next = found.length > limit ? (agents.at(-1)?.agentId ?? null) : null;
    if (options.json) io.out(JSON.stringify({ agents, next }));
    else if (agents.length === 0) io.out(after === undefined ? NO_AGENTS : `no agents behind ${after}`);
    else for (const line of table(agentRows(agents))) io.out(line);
    if (!options.json) tellMore(io, `agents ls --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

/** `agents get`: one agent and its last turns. Resolves with the exit code. Errors: `agent_not_found`. */
export async function printAgent(
  { io, openStore }: CliEnvironment,
  agentId: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const agent = await store.getAgent(agentId);
    if (!agent) throw noAgent(agentId);
    const turns = await store.listTurns(agentId, { last: LAST_TURNS });
    const held = await heldQueue(store, agentId);
    const lines = options.json ? [JSON.stringify({ agent, turns, held })] : agentPage(agent, turns, held);
    for (const line of lines) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}

const statusOf = ({ status, lifecycle, waitingForWorkers }: AgentView): string =>
  [
    status,
    ...(lifecycle === 'stopped' ? ['stopped'] : []),
    ...(waitingForWorkers === null ? [] : [`waiting for workers of ${waitingForWorkers.workerTarget}`]),
  ].join(', ');

const agentRows = (agents: readonly AgentView[]): string[][] => [
  ['AGENT', 'PROFILE', 'STATUS', 'EPOCH', 'QUEUED', 'WAITING', 'CHANGED', 'ACTIVE TURN'],
  ...agents.map((agent) => [
    agent.agentId,
    agent.profile ?? '(by its name)',
    statusOf(agent),
    String(agent.turnEpoch),
    String(agent.queuedTurns),
    String(agent.waitingToolCount),
    time(agent.updatedAt),
    agent.activeAgentTurnId ?? '-',
  ]),
];

function agentPage(agent: AgentView, turns: readonly TurnView[], held: HeldQueue | null): string[] {
  const { waitingToolCount, resumeDeadline } = agent;
  const until = resumeDeadline === null ? '' : ` until ${time(resumeDeadline)}`;
  const head = [
    ['agent', `${agent.agentId}, profile ${agent.profile ?? '(by its name)'}, epoch ${agent.turnEpoch}`],
    ['status', statusOf(agent)],
    ['active', agent.activeAgentTurnId ?? '-'],
    ['waiting', waitingToolCount === 0 ? 'no calls' : `${counted(waitingToolCount, 'call')}${until}`],
    ...(held === null ? [] : [['held', heldText(held)]]),
    ['turns', `${agent.acceptedTurns} accepted, ${agent.queuedTurns} queued`],
    ['changed', time(agent.updatedAt)],
  ];
  return [...table(head), ...(turns.length > 0 ? ['', ...table(turnRows(turns))] : [])];
}

const turnRows = (turns: readonly TurnView[]): string[][] => [
  ['TURN', 'STATUS', 'EPOCH', 'STEPS', 'ACCEPTED', 'TOOK', 'ASKED'],
  ...turns.map((turn) => [
    turn.agentTurnId,
    turn.errorCode === null ? turn.status : `${turn.status} (${turn.errorCode})`,
    turn.turnEpoch === null ? '-' : String(turn.turnEpoch),
    String(turn.stepCount),
    time(turn.acceptedAt),
    turn.endedAt === null ? '-' : duration(turn.endedAt - (turn.leasedAt ?? turn.acceptedAt)),
    shortened(turn.instruction, ASKED_CHARACTERS),
  ]),
];
