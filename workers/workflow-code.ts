/**
 * The workflow code that a worker runs when it was given none.
 *
 * Invariant: the package ships the code bundled, so that an installed worker starts without a bundler; sources are bundled as they are now.
 */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LogLevel } from '@temporalio/common';
import type { WorkflowCode } from './bundle.ts';

/** Where the build puts the bundle, seen from the compiled file of this one. */
const SHIPPED = '../workflow-bundle.js';

/** The code that the package ships, or that is bundled here where this file runs from sources. The bundler logs from `level` on. */
export async function workflowCode(level: LogLevel = 'WARN'): Promise<WorkflowCode> {
  if (extname(import.meta.url) === '.js') return { codePath: fileURLToPath(new URL(SHIPPED, import.meta.url)) };
  const { keptBundle } = await import('./kept-bundle.ts');
  return keptBundle(level);
}
