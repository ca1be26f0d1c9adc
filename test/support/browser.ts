/** Temporal's Web UI in a real browser. */
import { type Browser, chromium, type Page } from 'playwright-core';

const CHROMIUM = process.env.AGENTTURN_TEST_CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

export const launchBrowser = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

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
