/** Loading the app that a developer wrote: a module whose default export is `defineApp(...)`. */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { App } from '../activities/app/app.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** The app that a module exports by default. Throws `app_not_loaded`, which names the file and the reason. */
export async function loadApp(modulePath: string): Promise<App> {
  const file = resolve(modulePath);
  try {
    const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
    if (isApp(module.default)) return module.default;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CodedError('app_not_loaded', `the app module ${file} could not be loaded: ${reason}`, { cause: error });
  }
  throw new CodedError(
    'app_not_loaded',
    `the default export of ${file} must be what defineApp({agents, tools}) returns`,
  );
}

const isApp = (value: unknown): value is App =>
  typeof value === 'object' &&
  value !== null &&
  'agents' in value &&
  value.agents instanceof Map &&
  'tools' in value &&
  value.tools instanceof Map;
