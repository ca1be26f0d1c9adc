/** All activities, from their dependencies. */
import type { StoreActivities, TurnActivities } from '../workflows/contract/activities.ts';
import { mapFailures } from './failure.ts';
import { ofItsOwnTurn } from './identity.ts';
import { callModel, type ModelDeps } from './llm/call-model.ts';
import { summarize } from './llm/summarize.ts';
import { type StoreActivityDeps, storeActivities } from './store-activities.ts';
import { runTool, type ToolDeps } from './tools/run-tool.ts';

/** What all activities together need. */
export type ActivityDeps = StoreActivityDeps & ModelDeps & ToolDeps;

/** The activities of turns, each of which acts only for the workflow that holds the lease, and fails in words of the catalogue. */
export const createActivities = (deps: ActivityDeps): StoreActivities & TurnActivities =>
  mapFailures(
    ofItsOwnTurn({
      ...storeActivities(deps),
      callModel: callModel(deps),
      summarize: summarize(deps),
      runTool: runTool(deps),
    }),
  );
