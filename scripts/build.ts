/**
 * The build of the package into dist/: the compiled sources, the page of the console, and the workflow code as an installed worker runs it
 * (workers/workflow-code.ts).
 *
 * Invariant: dist/ holds what this build made and nothing of an earlier one.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { browserCode } from '../client/console/console.ts';
import { bundleWorkflows } from '../workers/bundle.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

async function compile(): Promise<void> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root }).catch(
    ({ stdout }: { stdout?: string }) => {
      throw new Error(`the sources do not compile:\n${stdout}`);
    },
  );
}

async function bundle(): Promise<void> {
  const { code } = await bundleWorkflows();
  writeFileSync(join(dist, 'workflow-bundle.js'), code);
}

function copyPage(): void {
  const page = 'client/console/page';
  mkdirSync(join(dist, page), { recursive: true });
  for (const file of globSync(`${page}/*.ts`, { cwd: root }))
    writeFileSync(join(dist, file.replace(/\.ts$/, '.js')), browserCode(readFileSync(join(root, file), 'utf8')));
  copyFileSync(join(root, page, 'console.css'), join(dist, page, 'console.css'));
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
copyPage();
await Promise.all([compile(), bundle()]);
