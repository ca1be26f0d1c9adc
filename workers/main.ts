#!/usr/bin/env node
/**
 * The first file of `agentturn`: it sees to it that this Node can run the rest.
 *
 * Invariant: nothing else of ours is imported before the version has been checked, for an older Node fails at the imports with words that help nobody.
 */
import module from 'node:module';
import { nodeComplaint } from './node-version.ts';

const complaint = nodeComplaint();
if (complaint === null) {
  // What was compiled once is kept in the system's temporary folder: a command starts in half the time from the second time on.
  module.enableCompileCache();
  await import('./program.ts');
} else {
  console.error(complaint);
  process.exitCode = 1;
}
