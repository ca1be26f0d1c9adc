/** All activities of a worker, put together from their dependencies. */
import type { StoreActivities, TurnActivities } from '../workflows/contract/activities.ts';
import type { Store } from '../workflows/contract/store.ts';
import type { App } from './app/app.ts';
import { mapFailures } from './failure.ts';
import { ofItsOwnTurn } from './identity.ts';
import { callModel } from './llm/call-model.ts';
import type { Model } from './llm/model.ts';
import { summarize } from './llm/summarize.ts';
import { createStoreActivities } from './store-activities.ts';
import { runTool } from './tools/run-tool.ts';
import type { HandoverExecutor } from './turn-workflows.ts';

/** What the activities need from the process that runs them. */
export interface ActivityDeps {
  readonly store: Store;
  readonly app: App;
  readonly model: Model;
  readonly workflows: HandoverExecutor;
}

/**
 * The activities that turns call. An error that one of them throws is typed by its code, and none works for a workflow that does not hold
 * the lease in its input.
 */
export const createActivities = (deps: ActivityDeps): StoreActivities & TurnActivities =>
  mapFailures(
    ofItsOwnTurn({
      ...createStoreActivities(deps),
      callModel: callModel(deps),
      summarize: summarize(deps),
      runTool: runTool(deps),
    }),
  );
