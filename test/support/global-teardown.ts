/** Stops the server of global-setup.ts. */
export default async function teardown(): Promise<void> {
  await globalThis.testTemporal?.stop();
}
