/** The command line of the bench. */
import { parseArgs } from 'node:util';
import { STORES, type StoreKind } from './lab.ts';

export const USAGE = `Usage: npm run bench -- [options]

  --store KIND     sqlite (default) or postgres, started for the run
  --pooled         through a PgBouncer in front of it; only with --store postgres
  --quick          half a minute instead of several: fewer turns, none with 200 calls
  --suspended N    only this: N turns that wait at the same time, on one worker
  --rest S         how long they are left waiting; default 60 seconds
  --streams        only this: how late chunks reach readers over HTTP, and what many readers at once take
  --frozen N       only this: how long turns stand still when one of two workers freezes, N times
  --supervise      only this: what a pass of the supervisor costs beside 100,000 idle agents
  --scale          only this: what an operation costs with 1,000, 100,000 and 1,000,000 turns in the store
  --markdown       only the tables, no progress
  --json FILE      also write the results to FILE
  --write-docs     also put the tables into docs/performance.md`;

export interface BenchOptions {
  readonly store: StoreKind;
  /** Through a PgBouncer in front of the server. */
  readonly pooled: boolean;
  readonly quick: boolean;
  /** Null: the usual measurements. */
  readonly suspended: { readonly turns: number; readonly restSeconds: number } | null;
  /** Only turns that are followed over HTTP. */
  readonly streams: boolean;
  /** Only so many freezes of one of two workers; null: the usual measurements. */
  readonly frozen: number | null;
  /** Only a pass of the supervisor. */
  readonly supervise: boolean;
  /** Only operations on stores of several sizes. */
  readonly scale: boolean;
  readonly markdown: boolean;
  readonly json: string | undefined;
  readonly writeDocs: boolean;
}

/** Null asks for the usage. Errors: TypeError with what is wrong. */
export function readOptions(args: readonly string[]): BenchOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      store: { type: 'string', default: 'sqlite' },
      pooled: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      suspended: { type: 'string' },
      rest: { type: 'string', default: '60' },
      streams: { type: 'boolean', default: false },
      frozen: { type: 'string' },
      supervise: { type: 'boolean', default: false },
      scale: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      json: { type: 'string' },
      'write-docs': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const { quick, pooled, suspended, streams, supervise, scale, markdown, json } = values;
  return {
    store: storeKind(values.store),
    pooled,
    quick,
    streams,
    frozen: values.frozen === undefined ? null : whole('frozen', values.frozen, 1),
    supervise,
    scale,
    markdown,
    json,
    suspended:
      suspended === undefined
        ? null
        : { turns: whole('suspended', suspended, 1), restSeconds: whole('rest', values.rest, 0) },
    writeDocs: values['write-docs'],
  };
}

function storeKind(text: string): StoreKind {
  const kind = STORES.find((name) => name === text);
  if (kind) return kind;
  throw new TypeError(`--store must be ${STORES.join(' or ')}, got ${text}`);
}

function whole(name: string, text: string, least: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= least) return value;
  throw new TypeError(`--${name} must be a whole number from ${least}, got ${text}`);
}
