/**
 * Which folder a demo agent works on, and where its tools log what they did: one small file per demo run in the data folder.
 *
 * It is looked up by agent id and not held by the process, so that any worker with this data folder may run any step: another demo's,
 * one of `dev`, or the one that is started after a crash.
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { makeFolder } from '../../activities/folder.ts';
import { packageRoot } from '../commands/package-root.ts';

const DOCUMENTATION = ['README.md', 'docs'];

const jobSchema = z.object({
  dir: z.string(),
  /** The only names seen at the top of `dir`. */
  include: z.array(z.string()).optional(),
  effectsLog: z.string().optional(),
});
export type DemoJob = z.infer<typeof jobSchema>;

const effectSchema = z.object({
  callId: z.string(),
  tool: z.string(),
  attempt: z.number(),
  pid: z.number(),
  at: z.number(),
});
/** One start of one tool. */
export type Effect = z.infer<typeof effectSchema>;

export class DemoJobs {
  readonly #dir: string;

  constructor(dataDir: string) {
    this.#dir = resolve(dataDir, 'demo');
  }

  /** Without `dir`, the documentation of this project. Nothing is written yet. */
  plan(agentId: string, dir: string | undefined): DemoJob {
    const effectsLog = join(this.#dir, `${agentId}.effects.jsonl`);
    return { ...(dir === undefined ? documentation() : { dir: resolve(dir) }), effectsLog };
  }

  save(agentId: string, job: DemoJob): void {
    makeFolder(this.#dir);
    writeFileSync(this.#file(agentId), JSON.stringify(job));
  }

  /** An agent that no demo made works on the documentation of this project. */
  of(agentId: string): DemoJob {
    const file = this.#file(agentId);
    return existsSync(file) ? jobSchema.parse(JSON.parse(readFileSync(file, 'utf8'))) : documentation();
  }

  #file(agentId: string): string {
    return join(this.#dir, `${encodeURIComponent(agentId)}.json`);
  }
}

export function logEffect({ effectsLog }: DemoJob, effect: Omit<Effect, 'pid' | 'at'>): void {
  if (effectsLog === undefined) return;
  // Before the tool does anything, and in one write: a line is there or not, also when the process is killed.
  appendFileSync(effectsLog, `${JSON.stringify({ ...effect, pid: process.pid, at: Date.now() })}\n`);
}

export function readEffects({ effectsLog }: DemoJob): Effect[] {
  if (effectsLog === undefined || !existsSync(effectsLog)) return [];
  const lines = readFileSync(effectsLog, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => effectSchema.parse(JSON.parse(line)));
}

/** README and docs of this package, wherever it is installed. */
const documentation = (): DemoJob => ({ dir: packageRoot(), include: DOCUMENTATION });
