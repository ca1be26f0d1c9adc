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
    throw new CodedError('app_not_loaded', `the app module ${file} could not be loaded: ${reasonOf(error)}`, {
      cause: error,
    });
  }
  throw new CodedError(
    'app_not_loaded',
    `the default export of ${file} must be what defineApp({agents, tools}) returns`,
  );
}

/** Why a module could not be loaded; of a TypeScript file that this Node does not run, what to do. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, code } = error as NodeJS.ErrnoException;
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && /"\.[cm]?ts"/.test(message)) {
    return `this Node ${process.versions.node} does not run TypeScript; run it without --no-strip-types, or compile the app and name the JavaScript file`;
  }
  if (code === 'ERR_MODULE_NOT_FOUND' && /Cannot find module '[^']*\/[^./']+' imported/.test(message)) {
    return `${message}; an import of a file needs its extension, as in './tools.ts'`;
  }
  if (code === 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING') {
    return 'Node runs no TypeScript from node_modules; copy the file into your project and name the copy';
  }
  return message;
}

const isApp = (value: unknown): value is App =>
  typeof value === 'object' &&
  value !== null &&
  'agents' in value &&
  value.agents instanceof Map &&
  'tools' in value &&
  value.tools instanceof Map;
