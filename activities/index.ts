/** All activities of a worker, put together from their dependencies. */
import type { StoreActivities, TurnActivities } from '../workflows/contract/activities.ts';
import { runSteps } from './burst/run-steps.ts';
import { mapFailures } from './failure.ts';
import { ofItsOwnTurn } from './identity.ts';
import { callModel, type ModelDeps } from './llm/call-model.ts';
import { summarize } from './llm/summarize.ts';
import { createStoreActivities, endingTeller, type StoreActivityDeps, turnCommitter } from './store-activities.ts';
import { runTool, type ToolDeps } from './tools/run-tool.ts';

/** What the activities need from the process that runs them. */
export type ActivityDeps = StoreActivityDeps & ModelDeps & ToolDeps;

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
      runSteps: runSteps({ ...deps, commitTurn: turnCommitter(deps), tellEnding: endingTeller(deps) }),
    }),
  );
