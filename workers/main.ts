#!/usr/bin/env node
/**
 * The first file of `agentturn`: it sees to it that this Node can run the rest.
 *
 * Invariant: nothing else is imported before the version has been checked, for an older Node fails at the imports with words that help nobody.
 */
import { nodeComplaint } from './node-version.ts';

const complaint = nodeComplaint();
if (complaint === null) {
  await import('./program.ts');
} else {
  console.error(complaint);
  process.exitCode = 1;
}
