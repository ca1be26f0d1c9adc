/** Stops the servers of global-setup.ts. */
export default async function teardown(): Promise<void> {
  await globalThis.testTemporal?.stop();
  await globalThis.testPostgres?.stop();
}
