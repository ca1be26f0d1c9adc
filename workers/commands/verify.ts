/** `verify`: opens store and Temporal as they are, and checks both. */
import type { Verification, VerifyOptions } from '../../client/cli/environment.ts';
import type { Violation } from '../../workflows/contract/views.ts';
import type { Config } from '../config.ts';
import { connectClient } from '../connect.ts';
import { verifyInstallation } from '../verify.ts';
import { withCleanup } from './cleanup.ts';
import { locateTemporal } from './locate-temporal.ts';
import { openExistingStore, settingsOf } from './settings.ts';

/** Errors: `temporal_unreachable`, those of the store. */
export function verify(
  config: Config,
  options: VerifyOptions,
  tell: (found: readonly Violation[]) => void,
): Promise<Verification> {
  const settings = settingsOf(config, options);
  return withCleanup(async (cleanup) => {
    const { client, connection } = await connectClient(await locateTemporal(settings));
    cleanup.add(() => connection.close());
    const store = await openExistingStore(settings);
    cleanup.add(() => store.close());
    const { olderThan } = options;
    const grace = olderThan === undefined ? {} : { graceMs: olderThan * 1_000 };
    return verifyInstallation({ store, temporal: client, ...grace }, tell);
  });
}
