/**
 * The version of the kernel: a digest of the sources that decide how a turn goes on, kept in workflows/kernel/version.ts. Workflow and burst
 * run the kernel side by side, and only where both have the same one. Run after a change of these sources; a test holds it to them.
 */
import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const FILE = 'workflows/kernel/version.ts';
const SOURCES = [
  'workflows/kernel/*.ts',
  'workflows/protocol/*.ts',
  'workflows/turn/kernel.ts',
  'workflows/turn/response.ts',
];

/** The version of the sources as they are now. */
export function kernelVersion(): string {
  const hash = createHash('sha256');
  const files = globSync(SOURCES, { cwd: root }).filter((file) => file !== FILE);
  for (const file of files.sort()) hash.update(`${file}\0${readFileSync(`${root}/${file}`, 'utf8')}\0`);
  return hash.digest('hex').slice(0, 16);
}

const sourceOf = (version: string): string =>
  `/** The version of the kernel, by which a burst knows that it runs the same as the workflow: scripts/kernel-version.ts writes it. */\nexport const KERNEL_VERSION = '${version}';\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(`${root}/${FILE}`, sourceOf(kernelVersion()));
