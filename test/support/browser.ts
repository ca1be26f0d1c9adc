/** Temporal's Web UI in a real browser. */
import { describe } from '@jest/globals';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findChromium, noBrowser } from './chromium.ts';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

export const launchBrowser = async (): Promise<Browser> => chromium.launch({ ...(await findChromium()), args: FLAGS });

/** Tests that need a browser; where a platform has none they are skipped, and their name says so. */
export const describeInBrowser = (name: string, tests: () => void): void =>
  noBrowser === undefined ? describe(name, tests) : describe.skip(`${name} (${noBrowser})`, tests);

/** The list of workflows of a namespace; on the server of the whole test run where no other Web UI is named. */
export const workflowListUrl = (namespace: string, uiUrl = process.env.AGENTTURN_TEST_TEMPORAL_UI): string =>
  `${uiUrl}/namespaces/${namespace}/workflows`;

/** The page of a workflow, reached from the list by one click. */
export async function openWorkflowPage(
  browser: Browser,
  namespace: string,
  workflowId: string,
  uiUrl?: string,
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1400 } });
  await page.goto(workflowListUrl(namespace, uiUrl));
  await page.getByRole('link', { name: workflowId }).first().click();
  return page;
}
