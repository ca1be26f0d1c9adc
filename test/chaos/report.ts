/** What a run says at the end: to a person as a table, to a program as JSON. */
import type { Fault, Problem } from './ledger.ts';
import type { ChaosOptions } from './options.ts';
import type { Verdict } from './verify.ts';

/** At most so many problems of a kind are printed; the JSON has all. */
const PRINTED = 20;

const MIB = 1024 * 1024;

export interface ChaosReport extends Verdict {
  readonly ok: boolean;
  readonly options: ChaosOptions;
  readonly seconds: number;
  readonly drainSeconds: number;
  readonly faultsByKind: Readonly<Record<string, number>>;
  readonly faults: readonly Fault[];
  readonly counts: Readonly<Record<string, number>>;
  /** The most memory that a worker has taken, bytes; null where the system does not say. */
  readonly workerPeakBytes: number | null;
  /** Workers that ended without having been killed, in their own words. */
  readonly unaskedEnds: readonly string[];
}

export function printReport(report: ChaosReport, out: (line: string) => void): void {
  const { options, turns, success, untouched, untouchedSuccess, violations, unexplained } = report;
  const rows: [string, string][] = [
    ['store', options.store],
    ['seed', String(options.seed)],
    ['duration', `${report.seconds.toFixed(0)} s of faults, ${report.drainSeconds.toFixed(0)} s to drain`],
    ['workers, agents', `${options.workers}, ${options.agents}`],
    ['faults', String(report.faults.length)],
    ...counted(report.faultsByKind),
    ['turns', String(turns)],
    ...counted(report.endings),
    ['success', percent(success, turns)],
    ['success, turns nobody ended', percent(untouchedSuccess, untouched)],
    ['tool effects', String(report.effects)],
    ['clients', ''],
    ...counted(report.counts),
    ['largest worker', report.workerPeakBytes === null ? '-' : `${Math.round(report.workerPeakBytes / MIB)} MiB`],
    ['workers that ended unasked', String(report.unaskedEnds.length)],
    ['unexplained endings', String(unexplained.length)],
    ['violations', String(violations.length)],
  ];
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  for (const [name, value] of rows) out(`${name.padEnd(width)}${value}`);
  for (const how of report.unaskedEnds.slice(0, PRINTED)) out(`worker ended: ${how}`);
  printProblems('unexplained', unexplained, out);
  printProblems('violation', violations, out);
  out(report.ok ? 'The promise held.' : 'The promise was broken.');
}

function printProblems(what: string, problems: readonly Problem[], out: (line: string) => void): void {
  for (const { check, agentId, agentTurnId, detail } of problems.slice(0, PRINTED)) {
    out(`${what}: ${check} ${agentId ?? ''} ${agentTurnId ?? ''} ${detail}`);
  }
  if (problems.length > PRINTED) out(`... and ${problems.length - PRINTED} more`);
}

const counted = (counts: Readonly<Record<string, number>>): [string, string][] =>
  Object.entries(counts)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => [`  ${name}`, String(count)]);

const percent = (part: number, whole: number): string =>
  `${whole === 0 ? '-' : ((100 * part) / whole).toFixed(2)} % (${part} of ${whole})`;
