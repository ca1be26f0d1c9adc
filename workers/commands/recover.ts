/** `recover`, and what `dev` does before anything else: sessions are recovered from their journals (C10). */
import type { App } from '../../activities/app/app.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { connectClient } from '../../client/connect.ts';
import { claimNamespace } from '../../client/store-mark.ts';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { Config } from '../config.ts';
import { FolderJournal } from '../journal/folder-journal.ts';
import { type RecoveredSession, type Recovery, recover, type UnrecoveredSession } from '../journal/recovery.ts';
import type { Say } from '../log.ts';
import { registerApp } from '../worker.ts';
import { withCleanup } from './cleanup.ts';
import { journalFolder } from './journals.ts';
import { locateTemporal, refuseOthers } from './locate-temporal.ts';
import type { RecoverOptions } from './process-commands.ts';
import { openExistingStore, settingsOf } from './settings.ts';
import type { OpenedBackend } from './worker-process.ts';

/** Recovers all sessions and prints what was done. Resolves with the exit code: 1 where a session could not be recovered. */
export function recoverCommand(config: Config, io: CliIo, options: RecoverOptions): Promise<number> {
  const settings = settingsOf(config, options);
  return withCleanup(async (cleanup) => {
    const temporal = await connectClient(await locateTemporal(settings));
    cleanup.add(() => temporal.connection.close());
    const store = await openExistingStore(settings);
    cleanup.add(() => store.close());
    await refuseOthers(temporal.client, store, settings);
    const journal = new FolderJournal(journalFolder(settings, options.journal), store);
    const workflows = new TurnWorkflows(temporal.client, store, journal);
    const recovery = await recover({
      journal,
      store,
      temporal: temporal.client,
      workflows,
      options: { upToDamage: options.upToDamage },
    });
    if (options.json) io.out(JSON.stringify({ journal: journal.folder, ...recovery }));
    else {
      for (const line of recoveryLines(recovery)) io.out(line);
      const { sessions, failed } = recovery;
      io.out(`${sessions.length + failed.length} journals in ${journal.folder}, ${failed.length} not recovered`);
    }
    return recovery.failed.length === 0 ? 0 : 1;
  });
}

/** What `dev` recovers with. */
interface DevRecovery {
  readonly app: App;
  readonly journal: FolderJournal;
  readonly log: Say;
}

/**
 * Recovers all sessions before a worker runs, and says what was done; a session that cannot be recovered keeps nothing else from starting. The
 * profiles of the app are registered first: a session is restored with its own.
 */
export async function recoverFirst(
  { store, temporal }: OpenedBackend,
  { app, journal, log }: DevRecovery,
): Promise<void> {
  if ((await journal.sessionIds()).length === 0) return;
  await claimNamespace(temporal.client, await store.identity());
  await registerApp({ store, app, takeOver: true, log });
  const workflows = new TurnWorkflows(temporal.client, store, journal);
  const recovery = await recover({ journal, store, temporal: temporal.client, workflows });
  for (const line of recoveryLines(recovery)) log(line, recovery.failed.length === 0 ? 'INFO' : 'WARN');
}

/** A line for each session about which something was done, or could not be. */
const recoveryLines = ({ sessions, failed }: Recovery): string[] => [
  ...sessions.flatMap(doneLine),
  ...failed.map(failedLine),
];

function doneLine({ sessionId, restored, closedTurnId, nextTurnId }: RecoveredSession): string[] {
  const done = [
    ...(restored ? ['written from its journal'] : []),
    ...(closedTurnId === null ? [] : [`turn ${closedTurnId} closed as failed (report_missing)`]),
  ];
  if (done.length === 0) return [];
  return [
    `session ${sessionId}: ${[...done, ...(nextTurnId === null ? [] : [`goes on with turn ${nextTurnId}`])].join(', ')}`,
  ];
}

const failedLine = ({ sessionId, code, message, cure }: UnrecoveredSession): string =>
  `session ${sessionId} is not recovered: [${code}] ${message}; cure: ${cure}`;
