/**
 * Faults that no call was there to catch: rejected promises that nobody awaited, exceptions in timers and listeners. Node ends the process
 * for one, and every turn's activities there would start anew on another worker.
 *
 * Invariants
 * 1. What comes from a tool is the result of its call, or an incident that is logged when the call has its result already.
 * 2. What comes from elsewhere is an incident in a process of ours. In another's, what Node or its own listeners do stays as it is.
 * 3. Listeners are there once, from the start of the first worker of the process to the end of the last.
 */
import { describeError } from '../activities/failure.ts';
import { currentToolRun } from '../activities/tools/tool-faults.ts';

export interface FaultWatch {
  readonly log: (line: string) => void;
  /** The process is there for workers alone: it goes on whatever fails in it. */
  readonly ours: boolean;
}

/** A fault that comes again and again, in a timer of a tool say, is told of one by one only so often. */
const TOLD_ONE_BY_ONE = 10;
const THEN_EVERY_MS = 1_000;

const watches = new Set<FaultWatch>();
/** Of this process so far, and what the last line about them said. */
let count = 0;
let told = { count: 0, at: performance.now() };

/** Watches the process; returns what ends that. */
export function watchFaults(watch: FaultWatch): () => void {
  if (watches.size === 0) listen();
  watches.add(watch);
  return () => {
    if (watches.delete(watch) && watches.size === 0) ignore();
  };
}

function listen(): void {
  process.on('unhandledRejection', onRejection).on('uncaughtException', onException);
}

function ignore(): void {
  process.off('unhandledRejection', onRejection).off('uncaughtException', onException);
}

function onRejection(reason: unknown): void {
  onFault('unhandledRejection', 'unhandled rejection', reason, () => void Promise.reject(reason));
}

function onException(error: unknown): void {
  const again = () => {
    throw error;
  };
  onFault('uncaughtException', 'uncaught exception', error, () => process.nextTick(again));
}

function onFault(
  event: 'unhandledRejection' | 'uncaughtException',
  kind: string,
  fault: unknown,
  again: () => void,
): void {
  const run = currentToolRun();
  if (run) {
    const message = `${kind} outside of its call: ${describeError(fault)}`;
    const late = run.fail(new Error(message, { cause: fault })) ? '' : ', when the call had its result already';
    tell(`tool ${run.tool}, call ${run.callId}${late}: ${message}`, fault);
  } else if ([...watches].some((watch) => watch.ours)) {
    tell(`no tool: ${kind}: ${describeError(fault)}`, fault);
  } else if (process.listenerCount(event) === 1) {
    standAside(again);
  }
}

/** As if nobody watched: the same fault once more, and the listeners are back when Node has dealt with it, if it lets the process live. */
function standAside(again: () => void): void {
  ignore();
  again();
  setImmediate(() => {
    if (watches.size > 0) listen();
  });
}

function tell(line: string, fault: unknown): void {
  const now = performance.now();
  const silentFor = now - told.at;
  count += 1;
  if (count > TOLD_ONE_BY_ONE && silentFor < THEN_EVERY_MS) return;
  const rate = `${count} in this process, ${count - told.count} in the last ${Math.ceil(silentFor / 1_000)} s`;
  told = { count, at: now };
  const stack = fault instanceof Error && fault.stack ? `\n${fault.stack}` : '';
  for (const { log } of watches) log(`fault of ${line} (${rate})${stack}`);
}
