/** All activities, from their dependencies. */
import type { StoreActivities, TurnActivities } from '../workflows/contract/activities.ts';
import type { Store } from '../workflows/contract/store.ts';
import type { App } from './app/app.ts';
import { mapFailures } from './failure.ts';
import { ofItsOwnTurn } from './identity.ts';
import { callModel } from './llm/call-model.ts';
import type { Model } from './llm/model.ts';
import { summarize } from './llm/summarize.ts';
import { storeActivities } from './store-activities.ts';
import { runTool } from './tools/run-tool.ts';
import type { TurnWorkflows } from './turn-workflows.ts';

export interface ActivityDeps {
  readonly store: Store;
  readonly app: App;
  readonly model: Model;
  readonly workflows: TurnWorkflows;
}

export const createActivities = (deps: ActivityDeps): StoreActivities & TurnActivities =>
  mapFailures(
    ofItsOwnTurn({
      ...storeActivities(deps),
      callModel: callModel(deps),
      summarize: summarize(deps),
      runTool: runTool(deps),
    }),
  );
