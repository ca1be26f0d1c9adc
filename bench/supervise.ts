/**
 * What a pass of the supervisor costs beside very many idle agents: it reads what is due, so that only the open turns count. The rows of
 * idle agents are written by SQL; each open turn is accepted by the store and has a workflow, which nobody runs.
 */
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';
import { TurnWorkflows } from '../client/turn-workflows.ts';
import { Supervisor } from '../workers/supervision/supervisor.ts';
import { type Facts, gatherFacts, loadNow } from './facts.ts';
import type { Lab, StoreKind } from './lab.ts';
import { section, short, table, whole } from './markdown.ts';
import { inLoops, type Spread, spreadOf, timed } from './numbers.ts';
import { machineLine } from './report.ts';
import { benchApp, instructionOf, PROFILE, SMALL_OUTPUT } from './workload.ts';

export interface SuperviseResults {
  readonly facts: Facts;
  readonly store: StoreKind;
  readonly idleAgents: number;
  readonly openTurns: number;
  /** Passes while nothing is due. */
  readonly quiet: Spread;
  /** Passes with sixteen due checks each, every one of which asks the server for a workflow. */
  readonly checking: Spread;
}

const IDLE_AGENTS = 100_000;
const OPEN_TURNS = 1_000;
const PASSES = 60;
const DUE = 16;
const LOOPS = 16;
const HOUR_MS = 3_600_000;
/** Milliseconds of a pass while nothing is due. */
const PASS_LIMIT_MS = 50;

export async function measureSupervise(lab: Lab, say: (line: string) => void): Promise<SuperviseResults> {
  const facts = await gatherFacts(lab, loadNow());
  const { store, temporal } = lab;
  await store.registerProfiles([...benchApp().agents.values()]);
  say(`${IDLE_AGENTS} idle agents`);
  await execute(lab, idleAgentRows());
  say(`${OPEN_TURNS} open turns`);
  const ids = await openTurns(lab);
  const onError = (error: unknown) => {
    throw error;
  };
  const supervisor = new Supervisor({ store, temporal: temporal.client, leaseMs: HOUR_MS, onError });
  await supervisor.pass();
  say('passes');
  const quiet: number[] = [];
  const checking: number[] = [];
  for (let pass = 0; pass < PASSES; pass += 1) {
    quiet.push(await timed(() => supervisor.pass()));
    await store.makeDue(ids.slice((pass * DUE) % OPEN_TURNS, ((pass * DUE) % OPEN_TURNS) + DUE));
    checking.push(await timed(() => supervisor.pass()));
  }
  await supervisor.release();
  return {
    facts,
    store: lab.storeKind,
    idleAgents: IDLE_AGENTS,
    openTurns: OPEN_TURNS,
    quiet: spreadOf(quiet),
    checking: spreadOf(checking),
  };
}

const numbers = (count: number): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`;

const idleAgentRows = (): readonly string[] => [
  `insert into agents (agent_id, root_agent_id, profile, created_at) ${numbers(IDLE_AGENTS)} select 'idle-' || i, 'idle-' || i, '${PROFILE}', 0 from n`,
  `insert into agent_state_head (agent_id, status, agent_status, turn_epoch, active_agent_turn_id, output_box_id, waiting_tool_count,
     resume_deadline, accept_seq, event_seq, updated_at, recorded_at)
     ${numbers(IDLE_AGENTS)} select 'idle-' || i, 'idle', 'asleep', 1, null, null, 0, null, 1, 0, 0, 0 from n`,
  `insert into turns (agent_turn_id, agent_id, accept_seq, lane, turn_epoch, status, request, request_digest,
     instruction_card_id, profile_name, depth, usage, step_count, accepted_at)
     ${numbers(IDLE_AGENTS)} select 'ended-' || i, 'idle-' || i, 1, 1, 1, 'success', '{}', '', '', '${PROFILE}', 0, '{}', 1, 0 from n`,
  'analyze',
];

/** Accepted, started and suspended for an hour; their workflows wait on a queue that nobody serves. */
async function openTurns(lab: Lab): Promise<readonly string[]> {
  const { store, temporal } = lab;
  const workflows = new TurnWorkflows(temporal.client, store);
  const instruction = instructionOf({ tool: 'ask', calls: 1, bytes: SMALL_OUTPUT });
  const ids: string[] = [];
  await inLoops(LOOPS, Math.ceil(OPEN_TURNS / LOOPS), async (loop, round) => {
    if (round * LOOPS + loop >= OPEN_TURNS) return;
    const request = { instruction, profile: PROFILE, priority: 'normal' } as const;
    const accepted = await store.accept({ agentId: `open-${loop}-${round}`, request });
    if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('an idle agent gave no lease');
    await workflows.start({ ...accepted.lease, workerTarget: 'nobody' });
    ids.push(accepted.agentTurnId);
  });
  const later = Date.now() + HOUR_MS;
  await execute(lab, [
    `update turns set status = 'suspended', check_at = ${later} where status = 'dispatched'`,
    `update agent_state_head set status = 'suspended', resume_deadline = ${later}, waiting_tool_count = 1 where status = 'dispatched'`,
  ]);
  return ids;
}

async function execute({ storeKind, storeUrl }: Lab, statements: readonly string[]): Promise<void> {
  if (storeKind === 'sqlite') {
    const database = new SqliteDatabase(storeUrl.slice('sqlite:'.length), { timeout: 10_000 });
    for (const statement of statements) database.exec(statement);
    database.close();
    return;
  }
  const client = new pg.Client({ connectionString: storeUrl });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

export const superviseBudget = ({ quiet }: SuperviseResults): string[] =>
  quiet.p50 > PASS_LIMIT_MS ? [`a pass of the supervisor took ${short(quiet.p50)} ms, at most ${PASS_LIMIT_MS}`] : [];

export function superviseMarkdown({ facts, store, idleAgents, openTurns, quiet, checking }: SuperviseResults): string {
  const row = (what: string, { n, p50, p99 }: Spread): string[] => [what, whole(n), short(p50), short(p99)];
  return [
    machineLine(facts, store),
    section(
      `A pass of the supervisor, ${whole(idleAgents)} idle agents, ${whole(openTurns)} open turns`,
      table(
        ['pass', 'passes', 'p50 ms', 'p99 ms'],
        [row('nothing is due', quiet), row(`${DUE} turns are due`, checking)],
      ),
    ),
  ].join('\n\n');
}
