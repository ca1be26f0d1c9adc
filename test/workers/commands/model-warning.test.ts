/** `dev` and `worker` with a model endpoint that cannot work: they start all the same, and say at once what is wrong. */
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { emptyFolder, startCli } from '../../client/cli/processes.ts';
import { type Harness, openHarness } from '../../support/harness.ts';

const APP = new URL('../../client/cli/fixture-app.ts', import.meta.url).pathname;

describe.each(['dev', 'worker'])('%s', (command) => {
  let harness: Harness;
  let refusing: Server;
  let url: string;

  beforeAll(async () => {
    harness = await openHarness();
    refusing = createServer((request, response) => {
      const isGood = request.headers.authorization === 'Bearer good';
      response.writeHead(isGood ? 200 : 401).end('{}');
    });
    await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
    const address = refusing.address();
    url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/v1`;
  });
  afterAll(async () => {
    refusing?.close();
    await harness?.close();
  });

  /** What it says on standard error until it has started. */
  async function said(endpoint: Readonly<Record<string, string>>): Promise<string> {
    const env = {
      TEMPORAL_ADDRESS: harness.address,
      TEMPORAL_NAMESPACE: harness.namespace,
      AGENTTURN_STORE: harness.storeUrl,
      ...endpoint,
    };
    const process = startCli([command, '--app', APP, '--json'], { cwd: emptyFolder(), env });
    await process.until(/\{"ready".*\n/);
    return (await process.end('SIGTERM')).stderr;
  }

  test('says that the credentials are refused, and starts', async () => {
    const stderr = await said({ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'wrong' });
    expect(stderr).toMatch(/^warning \[provider_auth\]: the model endpoint .* refused the credentials \(401\)/m);
  });

  test('says that nothing answers, and starts', async () => {
    const stderr = await said({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' });
    expect(stderr).toMatch(
      /^warning \[provider_error\]: the model endpoint http:\/\/127\.0\.0\.1:1\/v1 does not answer/m,
    );
  });

  test('says nothing of an endpoint that takes the credentials', async () => {
    expect(await said({ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'good' })).not.toContain('warning');
  });
});
