/** All activities, from their dependencies. */
import type { Client } from '@temporalio/client';
import type { MailboxActivities, StoreActivities, TurnActivities } from '../workflows/ports.ts';
import type { Store } from '../workflows/protocol/store.ts';
import type { App } from './app.ts';
import { mapFailures } from './failure.ts';
import { callModel } from './llm/call-model.ts';
import type { Model } from './llm/openai.ts';
import { summarize } from './llm/summarize.ts';
import { mailboxActivities } from './mailbox-activities.ts';
import { storeActivities } from './store-activities.ts';
import type { Doorbell } from './tools/delegation.ts';
import { runTool } from './tools/run-tool.ts';

export interface ActivityDeps {
  readonly store: Store;
  readonly app: App;
  readonly model: Model;
  readonly temporal: Client;
  readonly doorbell: Doorbell;
}

export const createActivities = (deps: ActivityDeps): StoreActivities & TurnActivities & MailboxActivities =>
  mapFailures({
    ...storeActivities(deps.store, deps.app),
    ...mailboxActivities(deps),
    callModel: callModel(deps),
    summarize: summarize(deps),
    runTool: runTool(deps),
  });
