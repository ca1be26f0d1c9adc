/**
 * Which Node runs this package.
 *
 * Invariant: it imports nothing, so that it can be asked before anything is loaded that an older Node fails at.
 */

/** The oldest Node that runs this package: it runs TypeScript apps as they are, and `require` loads modules. */
const OLDEST = [22, 18] as const;

/** Says what a Node that is too old lacks, as a sentence for people; null for one that will do. */
export function nodeComplaint(): string | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return null;
  const needed = `agentturn needs Node ${OLDEST.join('.')} or newer, and this is Node ${process.versions.node} (${process.execPath})`;
  return `${needed}: install a newer one from https://nodejs.org and run this again.`;
}
