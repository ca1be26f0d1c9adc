#!/usr/bin/env node
/**
 * The first file of `agentturn`: it sees to it that this Node can run the rest.
 *
 * Invariant: nothing is imported before the version has been checked, for an older Node fails at the imports with words that help nobody.
 */

/** The oldest Node that runs this package: it runs TypeScript apps as they are, and `require` loads modules. */
const OLDEST = [22, 18] as const;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) {
  await import('./program.ts');
} else {
  const needed = `agentturn needs Node ${OLDEST.join('.')} or newer, and this is Node ${process.versions.node} (${process.execPath})`;
  console.error(`${needed}: install a newer one from https://nodejs.org and run the command again.`);
  process.exitCode = 1;
}
