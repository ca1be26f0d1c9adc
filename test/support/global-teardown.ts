/** Stops the servers of global-setup.ts, and removes what the run wrote. */
import { rmSync } from 'node:fs';

export default async function teardown(): Promise<void> {
  await globalThis.testTemporal?.stop();
  await globalThis.testPostgres?.stop();
  if (globalThis.testFolder !== undefined) rmSync(globalThis.testFolder, { recursive: true, force: true });
}
