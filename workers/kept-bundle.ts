/**
 * The bundled workflow code of a checkout, kept beside its installed packages: bundling takes seconds at each start of a worker from sources.
 *
 * Invariant: it is named by a digest of all that it is made of, the sources and the list of installed packages, so that another state of either
 * is bundled anew.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LogLevel } from '@temporalio/common';
import { bundleWorkflows, type WorkflowCode, workflowsPath } from './bundle.ts';

const PACKAGES = fileURLToPath(new URL('../node_modules', import.meta.url));
/** Where tools keep what they can make again. */
const FOLDER = join(PACKAGES, '.cache', 'agentturn');
/** After how long a bundle that nobody has used is removed, in ms. */
const KEPT_MS = 24 * 3_600_000;

/** The bundle of the sources as they are now: what was kept, or what is bundled here and kept where the folder can be written. */
export async function keptBundle(level: LogLevel): Promise<WorkflowCode> {
  const digest = await digestOfSources().catch(() => null);
  if (digest === null) return bundleWorkflows(level);
  const codePath = join(FOLDER, `workflow-bundle-${digest}.js`);
  if (await stat(codePath).catch(() => null)) {
    const now = new Date();
    await utimes(codePath, now, now).catch(() => {});
    return { codePath };
  }
  const { code } = await bundleWorkflows(level);
  try {
    await keep(codePath, code);
    return { codePath };
  } catch {
    return { code };
  }
}

/** The digest of all that the bundle is made of. Throws where npm has left no list of what it installed. */
async function digestOfSources(): Promise<string> {
  const sources = dirname(workflowsPath);
  const names = await readdir(sources, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const bundler = fileURLToPath(new URL('./bundle.ts', import.meta.url));
  const hash = createHash('sha256');
  for (const file of [join(PACKAGES, '.package-lock.json'), bundler, ...files.sort()])
    hash
      .update(`${file}\0`)
      .update(await readFile(file))
      .update('\0');
  return hash.digest('hex').slice(0, 32);
}

/** Writes the bundle whole or not at all, also where the machine loses its power, for others read it, and removes those of earlier sources. */
async function keep(codePath: string, code: string): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  const written = `${codePath}.${randomUUID()}`;
  await writeFile(written, code, { flush: true });
  await rename(written, codePath);
  for (const name of await readdir(FOLDER)) {
    const path = join(FOLDER, name);
    const made = await stat(path).catch(() => null);
    if (name.startsWith('workflow-bundle-') && made && Date.now() - made.mtimeMs > KEPT_MS)
      await rm(path, { force: true });
  }
}
