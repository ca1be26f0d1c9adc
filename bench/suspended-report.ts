/** The results of `--suspended` as a table. */

import { section, short, table, whole } from './markdown.ts';
import type { MemorySpread } from './probes.ts';
import { machineLine } from './report.ts';
import type { SuspendedResults } from './suspended.ts';

export function suspendedMarkdown(results: SuspendedResults): string {
  const { facts, store, turns, worker, serverBytes, databases, events, rest } = results;
  const { suspendSeconds, answerSeconds, completeSeconds, failed } = results;
  const rate = (seconds: number) => `${short(seconds)} s (${short(turns / seconds)} turns/s)`;
  const perMinute = (cpuSeconds: number) => (rest.seconds > 0 ? `${short((cpuSeconds * 60) / rest.seconds)} s` : '–');
  const rows = [
    ['until all wait', rate(suspendSeconds)],
    ['until all answers are acknowledged', rate(answerSeconds)],
    ['from the first answer until all agents are idle', rate(completeSeconds)],
    ['turns that did not end with success', whole(failed)],
    ['worker, RSS at the start', megabytes(worker.startBytes)],
    ['worker, RSS until all wait: median, peak', spread(worker.suspending)],
    [`worker, RSS in ${whole(rest.seconds)} s of waiting: median, peak`, spread(worker.resting)],
    ['worker, RSS until all are done: median, peak', spread(worker.completing)],
    ['worker, processor time a minute of waiting', perMinute(rest.workerCpuSeconds)],
    ['Temporal server, processor time a minute of waiting', perMinute(rest.serverCpuSeconds)],
    [
      'Temporal server, RSS while they wait, at the end',
      `${megabytes(serverBytes.resting)}, ${megabytes(serverBytes.end)}`,
    ],
    ['databases at the end: store, Temporal', `${megabytes(databases.store)}, ${megabytes(databases.temporal)}`],
    ['history events of a turn: while it waits, at the end', `${whole(events.waitingTurn)}, ${whole(events.turn)}`],
  ];
  return [
    machineLine(facts, store),
    section(`${whole(turns)} turns that wait at the same time`, table(['one worker', 'measured'], rows)),
  ].join('\n\n');
}

const megabytes = (bytes: number): string => `${whole(bytes / 1e6)} MB`;
const spread = ({ medianBytes, peakBytes }: MemorySpread): string =>
  `${megabytes(medianBytes)}, ${megabytes(peakBytes)}`;
