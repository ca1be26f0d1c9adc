/** What the numbers were taken on. */
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import type { Lab } from './lab.ts';

export interface MachineFacts {
  readonly date: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  /** One-minute load average when the bench began: above 1 or so, other work disturbed it. Always 0 on Windows. */
  readonly loadAtStart: number;
}

export interface Facts extends MachineFacts {
  readonly temporalServer: string;
  /** The version of the PgBouncer in front of the store; null where there is none. */
  readonly pooler: string | null;
}

export async function gatherFacts({ temporal, pooler }: Lab, loadAtStart: number): Promise<Facts> {
  const { serverVersion } = await temporal.connection.workflowService.getSystemInfo({});
  return { ...machineFacts(loadAtStart), temporalServer: serverVersion, pooler: pooler?.version ?? null };
}

export const machineFacts = (loadAtStart = loadNow()): MachineFacts => ({
  date: new Date().toISOString().slice(0, 10),
  cpu: cpus()[0]?.model.trim() || 'unknown CPU',
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  system: `${platform()} ${release()}`,
  node: process.version,
  loadAtStart,
});

export const loadNow = (): number => loadavg()[0] ?? 0;
