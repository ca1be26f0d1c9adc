/**
 * Faults that no call was there to catch: rejected promises that nobody awaited, exceptions in timers and listeners. Node ends the process
 * for one, and the activities of every turn there would start anew on another worker.
 *
 * Invariants
 * 1. A fault that comes from a tool is the result of its call, or an incident that is logged when the call has its result already.
 * 2. A fault that comes from elsewhere is an incident, in a process that exists for workers alone. In another program's process, what Node
 *    or the program's own listeners do stays as it is.
 * 3. Listeners are there once, from the start of the first worker of the process to the end of the last.
 */
import { describeError } from '../activities/failure.ts';
import { currentToolRun } from '../activities/tools/tool-faults.ts';

/** A worker that watches its process for faults. */
export interface FaultWatch {
  /** Takes one incident, written for people; it may have several lines. */
  readonly log: (line: string) => void;
  /** Whether the process is there for workers alone: then it goes on whatever fails in it. */
  readonly ours: boolean;
}

/** How many faults of a process are logged one by one: one that comes again and again, in a timer of a tool say, would fill the log. */
const LOGGED_ONE_BY_ONE = 10;
/** The pause between two lines of the log about the faults after those. */
const THEN_EVERY_MS = 1_000;

const watches = new Set<FaultWatch>();
/** How many faults this process has had. */
let count = 0;
/** How many faults there were, and when, at the last line of the log about them. */
let logged = { count: 0, at: performance.now() };

/** Watches the process for faults until the function that is returned gets called. */
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

/**
 * Does with a fault what Node does when nobody watches: the fault is raised once more without our listeners. They are back when Node has
 * dealt with it, if it lets the process live.
 */
function standAside(again: () => void): void {
  ignore();
  again();
  setImmediate(() => {
    if (watches.size > 0) listen();
  });
}

function tell(line: string, fault: unknown): void {
  const now = performance.now();
  const silentFor = now - logged.at;
  count += 1;
  if (count > LOGGED_ONE_BY_ONE && silentFor < THEN_EVERY_MS) return;
  const rate = `${count} in this process, ${count - logged.count} in the last ${Math.ceil(silentFor / 1_000)} s`;
  logged = { count, at: now };
  const stack = fault instanceof Error && fault.stack ? `\n${fault.stack}` : '';
  for (const { log } of watches) log(`fault of ${line} (${rate})${stack}`);
}
