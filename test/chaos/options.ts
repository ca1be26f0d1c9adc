/** The command line of a chaos run. */
import { parseArgs } from 'node:util';
import { FAULT_KINDS, type FaultKinds } from './faults.ts';

export const USAGE = `Usage: npm run chaos -- [options]

  --minutes N          how long faults are injected; default 3
  --store KIND         sqlite (default) or postgres, started for the run
  --pooled             through a PgBouncer in front of it; only with --store postgres
  --seed S             a whole number; default: from the clock. The same seed draws the same faults and requests
  --workers N          worker processes; default 3
  --agents N           agents at work at the same time; default 20
  --endings N          what clients and operators do to turns a minute: stop, terminate, cancel, reset, delete, flood; default 2
  --drain S            seconds everything may take to end once the faults are over; default 180
  --turns N            a batch: each agent is asked N times, by clients in turn, and the run ends when all is done, --minutes at most
  --clients N          clients of a batch; default 8
  --faults KINDS       all (default), or some of them with commas between, or kills: workers are killed every few seconds, and the
                       Temporal server once
                         kill     a worker is killed
                         freeze   a worker is frozen for 3 to 25 s
                         server   the Temporal server is ended and started again
                         outage   the store is away for up to 10 s
                         backlog  workers have two slots each, for 30 to 70 s
                         client   a client of the store is frozen in a transaction, its lock in hand, for 2 to 12 s
                         poison   60 to 200 requests that nobody can run come to one agent, between good ones
  --json FILE          also write the report to FILE
  --keep               keep the run's folder, also when all is well
  --quiet              no line per fault

Whatever the faults are, in a run without --turns the model answers some turns in a hostile way (calls numbered beyond all bounds, endless
text, halves of characters, arguments nested thousands deep, …), and for one agent in five it counts no tokens.`;

export interface ChaosOptions {
  readonly minutes: number;
  readonly store: 'sqlite' | 'postgres';
  readonly pooled: boolean;
  readonly seed: number;
  readonly workers: number;
  readonly agents: number;
  readonly endings: number;
  readonly drain: number;
  /** Per agent; 0 asks for as many as there is time for. */
  readonly turns: number;
  readonly clients: number;
  readonly faults: FaultKinds;
  readonly json: string | undefined;
  readonly keep: boolean;
  readonly quiet: boolean;
}

/** Null asks for the usage. Errors: TypeError with what is wrong. */
export function readOptions(args: readonly string[]): ChaosOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '3' },
      store: { type: 'string', default: 'sqlite' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      workers: { type: 'string', default: '3' },
      agents: { type: 'string', default: '20' },
      endings: { type: 'string', default: '2' },
      drain: { type: 'string', default: '180' },
      turns: { type: 'string', default: '0' },
      clients: { type: 'string', default: '8' },
      faults: { type: 'string', default: 'all' },
      json: { type: 'string' },
      keep: { type: 'boolean', default: false },
      pooled: { type: 'boolean', default: false },
      quiet: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const { json, keep, quiet, pooled } = values;
  if (pooled && values.store !== 'postgres') throw new TypeError('--pooled goes with --store postgres');
  return {
    pooled,
    store: oneOf('store', values.store, ['sqlite', 'postgres']),
    faults: faultKinds(values.faults),
    json,
    keep,
    quiet,
    minutes: number('minutes', values.minutes, 0.1, 24 * 60),
    seed: whole('seed', values.seed, 0),
    workers: whole('workers', values.workers, 1),
    agents: whole('agents', values.agents, 1),
    endings: number('endings', values.endings, 0, 600),
    drain: whole('drain', values.drain, 10),
    turns: whole('turns', values.turns, 0),
    clients: whole('clients', values.clients, 1),
  };
}

function faultKinds(text: string): FaultKinds {
  if (text === 'kills') return text;
  return text === 'all' ? FAULT_KINDS : text.split(',').map((kind) => oneOf('faults', kind, FAULT_KINDS));
}

function oneOf<T extends string>(name: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === text);
  if (found !== undefined) return found;
  throw new TypeError(`--${name} must be ${allowed.join(' or ')}, got ${text}`);
}

function number(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= least && value <= most) return value;
  throw new TypeError(`--${name} must be a number from ${least} to ${most}, got ${text}`);
}

function whole(name: string, text: string, least: number): number {
  const value = number(name, text, least, Number.MAX_SAFE_INTEGER);
  if (Number.isInteger(value)) return value;
  throw new TypeError(`--${name} must be a whole number, got ${text}`);
}
