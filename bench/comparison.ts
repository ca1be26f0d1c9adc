/**
 * What one turn costs beside the bare workflow, with one tool call and without any: time, turns per second, processor time. Ours and the floor take turns
 * block by block, so that what disturbs one disturbs the other, and each block of ours is compared with the floor's of the same round.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { everyAgent } from '../client/agent-pages.ts';
import { MANY_CALLERS } from './acks.ts';
import type { CallerTask, CallerTimes } from './caller-process.ts';
import type { Child } from './child.ts';
import type { Lab } from './lab.ts';
import { percentile } from './numbers.ts';
import { machineSeconds, PARTS, type PartTimes, partSeconds, storeSyncs } from './probes.ts';
import type { Compared } from './workload.ts';

/** The bare workflow, and ours in two variants: a new agent for every turn, and an agent per caller that is kept. */
export const SIDES = ['floor', 'fresh', 'standing'] as const;
export type Side = (typeof SIDES)[number];
export const VARIANTS = ['fresh', 'standing'] as const satisfies readonly Side[];
export type Variant = (typeof VARIANTS)[number];

/** A few seconds of turns of one side. */
export interface Block {
  readonly turns: number;
  readonly p50Ms: number;
  readonly perSecond: number;
  /** Milliseconds of processor time per turn. */
  readonly cpuMs: PartTimes;
  /** How often the store waited for its disk, per turn. */
  readonly syncs: number;
  /** The share of the machine's processor time that its host gave to other machines meanwhile. */
  readonly stolen: number;
  /** The share that processes took which are not the bench's. */
  readonly others: number;
}

export type Figure = (block: Block) => number;
export type Round = Readonly<Record<Side, Block>>;

export interface Comparison {
  /** One caller, for the time of a turn. */
  readonly one: readonly Round[];
  /** Callers who keep the machine busy, for turns per second and processor time. */
  readonly many: readonly Round[];
  /** After all of it: agents without a turn, and the workflows that run nevertheless. */
  readonly idle: { readonly agents: number; readonly workflows: number };
}

/** A block with more stolen processor time says more about the host than about us: it is shown, but not judged. */
const MOST_STOLEN = 0.15;

/** With fewer judged rounds there is no verdict. */
export const ENOUGH_ROUNDS = 3;
const EXTRA_ROUNDS = 5;

/** How long a block is and the lead before it, and how many rounds of them there are. */
interface Length {
  readonly ms: number;
  readonly leadMs: number;
  readonly wanted: number;
  readonly extra: number;
}

/**
 * A block begins with as much of the same work that is not counted: what lists of workflows show is written once a second, after the turn, and
 * the side that caused it pays for it.
 */
const LEAD_MS = 1_500;

const ONE_CALLER: Length = { ms: 3_000, leadMs: LEAD_MS, wanted: 5, extra: EXTRA_ROUNDS };
/** More of them: under load the speed of a machine moves by a quarter within seconds. */
const ALL_CALLERS: Length = { ms: 4_000, leadMs: LEAD_MS, wanted: 7, extra: EXTRA_ROUNDS };
/** One look: no time of it is judged. */
const QUICK: Length = { ms: 300, leadMs: 100, wanted: 1, extra: 0 };

/** Lets the writes that follow a result finish, so that they do not fall into the next measurement. */
const PAUSE_MS = 50;
const SETTLE_MS = 300;
const IDLE_MS = 10_000;
const IDLE_POLL_MS = 300;

interface Bench {
  readonly lab: Lab;
  readonly worker: Child;
  readonly callers: Child;
  readonly say: (line: string) => void;
}

export async function compareWithFloor(bench: Bench, work: Compared, quick: boolean): Promise<Comparison> {
  const [ofOne, ofMany] = quick ? [QUICK, QUICK] : [ONE_CALLER, ALL_CALLERS];
  const all: Task = { work, callers: MANY_CALLERS, pauseMs: 0 };
  for (const call of SIDES) await bench.callers.ask({ ...all, call, ms: ofMany.leadMs });
  const one = await alternate(bench, { work, callers: 1, pauseMs: PAUSE_MS }, ofOne);
  const many = await alternate(bench, all, ofMany);
  return { one, many, idle: await lookAtIdleAgents(bench.lab) };
}

type Task = Omit<CallerTask, 'call' | 'ms'>;

async function alternate(bench: Bench, task: Task, { wanted, extra, ...length }: Length): Promise<Round[]> {
  const rounds: Round[] = [];
  const judged = () => Math.min(...VARIANTS.map((variant) => judgedRounds(rounds, variant).length));
  while (judged() < wanted && rounds.length < wanted + extra) {
    const blocks: Partial<Record<Side, Block>> = {};
    // Each round begins with another side.
    for (const [index] of SIDES.entries()) {
      const call = SIDES[(index + rounds.length) % SIDES.length] ?? 'floor';
      const block = await runBlock(bench, { ...task, ...length, call });
      blocks[call] = block;
      bench.say(`${task.work}, round ${rounds.length + 1}, callers: ${task.callers}, ${call}: ${lineOf(block)}`);
    }
    rounds.push(blocks as Round);
  }
  return rounds;
}

async function runBlock(
  { lab, worker, callers }: Bench,
  { leadMs, ...task }: CallerTask & Pick<Length, 'leadMs'>,
): Promise<Block> {
  await callers.ask({ ...task, ms: leadMs });
  const machineBefore = machineSeconds();
  const syncsBefore = await storeSyncs(lab);
  const before = partSeconds(lab, worker, callers);
  const { tookMs, seconds } = (await callers.ask({ ...task })) as CallerTimes;
  await sleep(SETTLE_MS);
  const after = partSeconds(lab, worker, callers);
  const machineAfter = machineSeconds();
  const syncs = (await storeSyncs(lab)) - syncsBefore;
  const turns = tookMs.length;
  const cpuMs = PARTS.map((part) => [part, ((after[part] - before[part]) * 1_000) / turns]);
  const ours = PARTS.reduce((sum, part) => sum + after[part] - before[part], 0);
  const all = machineAfter.all - machineBefore.all;
  const idle = machineAfter.idle - machineBefore.idle;
  const stolen = machineAfter.stolen - machineBefore.stolen;
  return {
    turns,
    p50Ms: percentile(tookMs, 0.5),
    perSecond: turns / seconds,
    cpuMs: Object.fromEntries(cpuMs) as PartTimes,
    syncs: syncs / turns,
    stolen: stolen / all,
    others: (all - idle - stolen - ours) / all,
  };
}

/** Counts when no workflow runs any more, or after a while: the server's list is a little behind. */
async function lookAtIdleAgents({ store, temporal }: Lab): Promise<Comparison['idle']> {
  const agents = (await Array.fromAsync(everyAgent(store))).filter(({ status }) => status === 'idle').length;
  const deadline = Date.now() + IDLE_MS;
  for (;;) {
    const { count } = await temporal.client.workflow.count(`ExecutionStatus = 'Running'`);
    if (count === 0 || Date.now() > deadline) return { agents, workflows: count };
    await sleep(IDLE_POLL_MS);
  }
}

function lineOf(block: Block): string {
  const { p50Ms, perSecond, stolen, others } = block;
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
  const figures = `p50 ${p50Ms.toFixed(0)} ms, ${perSecond.toFixed(1)} turns/s, ${totalCpuMs(block).toFixed(0)} ms of CPU a turn`;
  return `${figures}, ${percent(stolen)} stolen, ${percent(others)} for other processes${isJudged(block) ? '' : ', not judged'}`;
}

const isJudged = ({ stolen }: Block): boolean => stolen <= MOST_STOLEN;

const judgedRounds = (rounds: readonly Round[], variant: Variant): Round[] =>
  rounds.filter((round) => isJudged(round.floor) && isJudged(round[variant]));

export const totalCpuMs = ({ cpuMs }: Block): number => PARTS.reduce((sum, part) => sum + cpuMs[part], 0);

/** The median over the judged blocks of one side. */
export const medianOf = (rounds: readonly Round[], side: Side, figure: Figure): number =>
  percentile(
    rounds.flatMap((round) => (isJudged(round[side]) ? [figure(round[side])] : [])),
    0.5,
  );

/** The median of the ratios of ours to the floor, each taken in one round, and the number of rounds it is taken from. */
export function ratioOf(rounds: readonly Round[], variant: Variant, figure: Figure): { ratio: number; judged: number } {
  const ratios = judgedRounds(rounds, variant).map((round) => figure(round[variant]) / figure(round.floor));
  return { ratio: percentile(ratios, 0.5), judged: ratios.length };
}
