/**
 * Counts what Temporal bills of a turn, by its table of Actions: the start, every activity, timer, upsert of search attributes and signal count
 * one each, and so does every local activity (W17). What a turn asks of the server goes through its meter, so that nothing else counts.
 */
import { type SignalDefinition, setHandler, sleep, workflowInfo } from '@temporalio/workflow';
import { burstActivities, modelActivities, storeActivities, toolActivities } from '../contract/activities.ts';
import { showTurnStatus } from '../messages/search-attributes.ts';
import type { Timeouts } from '../protocol/profile.ts';
import type { EngineUsage, TurnStatus } from '../protocol/turn.ts';

/** Two actions are certain before anything else happens: the start, and the final commit, which is made without the meter. */
const AT_THE_START: EngineUsage = { historyEvents: 0, historyBytes: 0, actions: 2 };

/** The end of a workflow task, the three events of an activity, and the beginning of the next task. */
const EVENTS_OF_A_BURST = 6;

type SignalHandler = (body: unknown) => void | Promise<void>;

/** The server as a turn uses it, counted. */
export class Meter {
  readonly #before: EngineUsage;
  readonly #heartbeatMs: number;
  #actions: number;
  /** The activities of the store; each call counts. */
  readonly store = this.#counted(storeActivities);

  /** `before` is what the earlier runs of the turn used; it is left out in the first run. */
  constructor({ heartbeatMs }: Pick<Timeouts, 'heartbeatMs'>, before: EngineUsage = AT_THE_START) {
    this.#heartbeatMs = heartbeatMs;
    this.#before = before;
    this.#actions = before.actions;
  }

  /** The activities that call a model, with a summary for the Web UI; each call counts. */
  model(summary: string): ReturnType<typeof modelActivities> {
    return this.#counted(modelActivities(summary, this.#heartbeatMs));
  }

  /** The activity that performs several actions, with a summary for the Web UI; each call counts. */
  burst(summary: string): ReturnType<typeof burstActivities> {
    return this.#counted(burstActivities(summary, this.#heartbeatMs));
  }

  /** The activity that runs a tool, with a summary for the Web UI; each call counts. */
  tool(summary: string): ReturnType<typeof toolActivities> {
    return this.#counted(toolActivities(summary, this.#heartbeatMs));
  }

  /** Handles a signal; each one that comes counts. `body` is undefined for a signal without one. */
  onSignal(signal: SignalDefinition<[unknown]>, handler: SignalHandler): void {
    setHandler(signal, (body) => {
      this.#actions += 1;
      return handler(body);
    });
  }

  /** Shows the status in the search attributes; the upsert counts. */
  showStatus(status: TurnStatus): void {
    this.#actions += 1;
    showTurnStatus(status);
  }

  /** A timer, which counts. */
  sleep(ms: number): Promise<void> {
    this.#actions += 1;
    return sleep(ms);
  }

  /** What all runs of the turn have used so far, the final commit included. */
  get usage(): EngineUsage {
    const { historyLength, historySize } = workflowInfo();
    const { historyEvents, historyBytes } = this.#before;
    return {
      historyEvents: historyEvents + historyLength,
      historyBytes: historyBytes + historySize,
      actions: this.#actions,
    };
  }

  /** The same at the end of a burst that is about to be asked for; how many bytes its result will have, nobody knows yet. */
  get usageAfterBurst(): EngineUsage {
    const { historyEvents, ...rest } = this.usage;
    return { ...rest, historyEvents: historyEvents + EVENTS_OF_A_BURST };
  }

  #counted<T extends object>(activities: T): T {
    return new Proxy(activities, {
      get:
        (target, name) =>
        (...args: unknown[]) => {
          this.#actions += 1;
          return (Reflect.get(target, name) as (...args: unknown[]) => unknown)(...args);
        },
    });
  }
}
