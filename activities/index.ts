/** All activities of a worker, put together from their dependencies. */
import PQueue from 'p-queue';
import type { StoreActivities, TurnActivities } from '../workflows/contract/activities.ts';
import type { ChunkStore } from '../workflows/contract/chunks.ts';
import type { BurstDeps } from './burst/burst.ts';
import { runSteps } from './burst/run-steps.ts';
import { mapFailures } from './failure.ts';
import { ofItsOwnTurn } from './identity.ts';
import { callModel, type ModelDeps } from './llm/call-model.ts';
import { ChunkWriter } from './llm/chunk-writer.ts';
import { summarize } from './llm/summarize.ts';
import { ofOwnAgents } from './own-agents.ts';
import { createStoreActivities, endingTeller, type StoreActivityDeps, turnCommitter } from './store-activities.ts';
import { runTool, type ToolDeps } from './tools/run-tool.ts';

/** What the activities need from the process that runs them. */
export type ActivityDeps = StoreActivityDeps &
  Omit<ModelDeps, 'chunks'> &
  ToolDeps &
  Pick<BurstDeps, 'isStopping'> & {
    readonly store: ChunkStore;
    /** How many tools run at once within bursts. */
    readonly toolsAtOnce: number;
  };

/**
 * The activities that turns call. An error that one of them throws is typed by its code, and none works for a workflow that does not hold
 * the lease in its input.
 */
export const createActivities = (deps: ActivityDeps): StoreActivities & TurnActivities => {
  const asking = { ...deps, chunks: new ChunkWriter(deps.store) };
  const slots = new PQueue({ concurrency: deps.toolsAtOnce });
  return mapFailures(
    ofItsOwnTurn({
      ...createStoreActivities(deps),
      ...ofOwnAgents(deps, {
        callModel: callModel(asking),
        summarize: summarize(asking),
        runTool: runTool(deps),
        runSteps: runSteps({ ...asking, slots, commitTurn: turnCommitter(deps), tellEnding: endingTeller(deps) }),
      }),
    }),
  );
};
