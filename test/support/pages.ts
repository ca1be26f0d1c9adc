/** The shell commands of the pages that users follow. */
import { readFileSync } from 'node:fs';

const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'docs/concepts.md',
  'docs/tools.md',
  'docs/profile.md',
  'docs/kernel.md',
  'docs/operating.md',
  'docs/production.md',
  'docs/promise.md',
];

export const readPage = (page: string): string => readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');

/** Each line of their shell blocks. */
export const pageCommands: readonly string[] = PAGES.flatMap((page) => [
  ...readPage(page).matchAll(/```sh\n(.*?)```/gs),
])
  .flatMap((block) => (block[1] ?? '').split('\n'))
  .map((line) => line.trim())
  .filter((line) => line !== '');

/** Those that only make sense where the package is installed: test/package runs them there. The rest is run from the sources. */
export const PACKAGE_COMMANDS = {
  install: 'npm install agentturn zod',
  demo: 'npx agentturn demo',
  init: 'npx agentturn init my-agents',
  copyApp: 'cp node_modules/agentturn/examples/01-weather-app.ts .',
  kernelAlone: 'cp node_modules/agentturn/examples/02-kernel-alone.ts . && node 02-kernel-alone.ts',
} as const;

/** The demo that kills its own worker: test/workers/demo runs it. */
export const CRASH_COMMAND = 'npx agentturn demo --crash';

/** README's program. */
export const readmeProgram = (): string =>
  /```ts\n(import .*? from 'agentturn';.*?)```/s.exec(readPage('README.md'))?.[1] ?? '';
