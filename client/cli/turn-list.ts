/** `turns ls` and `turns costs`: the turns of the whole store, and what they spent. */
import type { Spending, SpendingQuery, TurnPlace, TurnQuery, TurnSummary } from '../../workflows/contract/lists.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isTerminal, OPEN_STATUSES, TERMINAL_STATUSES, type TurnStatus } from '../../workflows/protocol/turn.ts';
import { type CliEnvironment, type CommonOptions, PAGE, type PageOptions, tellMore } from './environment.ts';
import { counted, duration, shortened, table, time } from './format.ts';

const ASKED_CHARACTERS = 50;
const REASON_CHARACTERS = 80;

/** Names of several statuses together. */
const GROUPS: Readonly<Record<string, readonly TurnStatus[]>> = {
  open: OPEN_STATUSES,
  ended: TERMINAL_STATUSES,
};

/** The options of `turns ls`; `since` is epoch ms. */
export interface TurnListOptions extends PageOptions {
  readonly status?: string;
  readonly profile?: string;
  readonly agent?: string;
  readonly since?: number;
}

/** `turns ls`: a page of turns, the newest first. Resolves with the exit code. Errors: `invalid_request`. */
export async function printTurns({ io, openStore }: CliEnvironment, options: TurnListOptions): Promise<number> {
  const { after, limit = PAGE, json, status, profile, agent, since, ...more } = options;
  const store = await openStore(more);
  try {
    const query: TurnQuery = {
      ...(status === undefined ? {} : { status: GROUPS[status] ?? [status as TurnStatus] }),
      ...(profile === undefined ? {} : { profile }),
      ...(agent === undefined ? {} : { agentId: agent }),
      ...(since === undefined ? {} : { since }),
      ...(after === undefined ? {} : { before: placeOf(after) }),
    };
    const found = await store.findTurns({ ...query, limit: limit + 1 });
    const turns = found.slice(0, limit);
    const last = turns.at(-1);
    const next = last && found.length > limit ? `${last.acceptedAt}:${last.agentTurnId}` : null;
    if (json) io.out(JSON.stringify({ items: turns, next }));
    else if (turns.length === 0) io.out(after === undefined ? 'no such turns' : 'no more');
    else for (const line of table(turnRows(turns))) io.out(line);
    if (!json) tellMore(io, `turns ls${filterOf(options)} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

/** The options of the list as they were given, for the command that shows the next page. */
function filterOf({ status, profile, agent, since }: TurnListOptions): string {
  const given = { status, profile, agent, since: since === undefined ? undefined : time(since) };
  return Object.entries(given)
    .map(([name, value]) => (value === undefined ? '' : ` --${name} ${value}`))
    .join('');
}

function placeOf(text: string): TurnPlace {
  const [, acceptedAt, agentTurnId] = /^(\d+):(.+)$/.exec(text) ?? [];
  if (acceptedAt !== undefined && agentTurnId !== undefined) return { acceptedAt: Number(acceptedAt), agentTurnId };
  throw new CodedError('invalid_request', '--after takes what the page before told, TIME:TURN');
}

const turnRows = (turns: readonly TurnSummary[]): string[][] => [
  ['ACCEPTED', 'AGENT', 'PROFILE', 'STATUS', 'STEPS', 'TOKENS', 'COST', 'TOOK', 'TURN', 'ASKED, OR WHY IT ENDED'],
  ...turns.map((turn) => [
    time(turn.acceptedAt),
    turn.agentId,
    turn.profile,
    turn.errorCode === null ? turn.status : `${turn.status} (${turn.errorCode})`,
    String(turn.stepCount),
    String(turn.usage.input + turn.usage.output),
    turn.cost === null ? '-' : turn.cost.toFixed(4),
    turn.endedAt === null ? '-' : duration(turn.endedAt - turn.acceptedAt),
    turn.agentTurnId,
    isTerminal(turn.status) && turn.reason !== null
      ? shortened(turn.reason, REASON_CHARACTERS)
      : shortened(turn.asked, ASKED_CHARACTERS),
  ]),
];

/** The options of `turns costs`; `since` is epoch ms. */
export interface CostOptions extends CommonOptions {
  readonly by: SpendingQuery['by'];
  readonly since: number;
  readonly limit?: number;
}

/** `turns costs`: what turns spent, by agent or by profile. Resolves with the exit code. */
export async function printCosts({ io, openStore }: CliEnvironment, options: CostOptions): Promise<number> {
  const { by, since, limit = PAGE, json, ...more } = options;
  const store = await openStore(more);
  try {
    const sums = await store.spending({ by, since, limit });
    if (json) io.out(JSON.stringify({ by, since, items: sums }));
    else if (sums.length === 0) io.out(`no turns since ${time(since)}`);
    else for (const line of table(costRows(by, sums))) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}

const costRows = (by: CostOptions['by'], sums: readonly Spending[]): string[][] => [
  [by.toUpperCase(), 'TURNS', 'FAILED', 'TOKENS', 'COST', 'WITHOUT A KNOWN COST'],
  ...sums.map(({ of, turns, failed, tokens, cost, uncosted }) => [
    of,
    String(turns),
    String(failed),
    String(tokens),
    uncosted === turns ? '-' : cost.toFixed(4),
    uncosted === 0 ? '-' : counted(uncosted, 'turn'),
  ]),
];
