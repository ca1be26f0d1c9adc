/** Stops the servers of global-setup.ts, and removes what the run wrote. */
import { rmSync } from 'node:fs';

export default async function teardown(): Promise<void> {
  await globalThis.testTemporal?.stop();
  await globalThis.testPostgres?.stop();
  // What tests have started may still write while it is being killed.
  const patient = { recursive: true, force: true, maxRetries: 10, retryDelay: 100 } as const;
  if (globalThis.testFolder !== undefined) rmSync(globalThis.testFolder, patient);
}
