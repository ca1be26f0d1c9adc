/**
 * Which folder a demo agent works on, and where its tools log what they did: one small file per demo run in the data folder.
 *
 * Invariant: a job is looked up by agent id and not held by the process, so that any worker with this data folder may run any step: another
 * demo's, one of `dev`, or the one that is started after a crash.
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { makeFolder } from '../../activities/folder.ts';
import { packageRoot } from '../commands/package-root.ts';

const DOCUMENTATION = ['README.md', 'docs'];

const jobSchema = z.object({
  dir: z.string(),
  /** The only names seen at the top of `dir`; all are when it is absent. */
  include: z.array(z.string()).optional(),
  effectsLog: z.string().optional(),
});
/** The folder of one demo agent, and the file in which its tools log; an agent that no demo made has no log. */
export type DemoJob = z.infer<typeof jobSchema>;

const effectSchema = z.object({
  callId: z.string(),
  tool: z.string(),
  attempt: z.number(),
  pid: z.number(),
  at: z.number(),
});
/** One start of one tool, as the tool logged it. */
export type Effect = z.infer<typeof effectSchema>;

/** The jobs in one data folder. */
export class DemoJobs {
  readonly #dir: string;

  constructor(dataDir: string) {
    this.#dir = resolve(dataDir, 'demo');
  }

  /** The job of a new agent: on the folder `dir`, or on the documentation of this project. Nothing is written. */
  plan(agentId: string, dir: string | undefined): DemoJob {
    const effectsLog = join(this.#dir, `${agentId}.effects.jsonl`);
    return { ...(dir === undefined ? documentation() : { dir: resolve(dir) }), effectsLog };
  }

  /** Writes a job down, so that workers find it. */
  save(agentId: string, job: DemoJob): void {
    makeFolder(this.#dir);
    writeFileSync(this.#file(agentId), JSON.stringify(job));
  }

  /** The job of an agent; one that no demo made works on the documentation of this project. */
  of(agentId: string): DemoJob {
    const file = this.#file(agentId);
    return existsSync(file) ? jobSchema.parse(JSON.parse(readFileSync(file, 'utf8'))) : documentation();
  }

  #file(agentId: string): string {
    return join(this.#dir, `${encodeURIComponent(agentId)}.json`);
  }
}

/** Logs that a tool starts, for a job that has a log. */
export function logEffect({ effectsLog }: DemoJob, effect: Omit<Effect, 'pid' | 'at'>): void {
  if (effectsLog === undefined) return;
  // The line is written before the tool does anything, and in one write: it is there or not, also when the process is killed.
  appendFileSync(effectsLog, `${JSON.stringify({ ...effect, pid: process.pid, at: Date.now() })}\n`);
}

/** The starts of tools that a job's log holds, in their order. */
export function readEffects({ effectsLog }: DemoJob): Effect[] {
  if (effectsLog === undefined || !existsSync(effectsLog)) return [];
  const lines = readFileSync(effectsLog, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => effectSchema.parse(JSON.parse(line)));
}

/** The README and docs of this package, wherever it is installed. */
const documentation = (): DemoJob => ({ dir: packageRoot(), include: DOCUMENTATION });
