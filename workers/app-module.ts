/** Loading the app that a developer wrote: a module whose default export is `defineApp(...)`. */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { App } from '../activities/app/app.ts';
import { framePlace } from '../activities/app/stack-frame.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** The app that a module exports by default. Throws `app_not_loaded`, which names the file and the reason. */
export async function loadApp(modulePath: string): Promise<App> {
  const file = resolve(modulePath);
  if (!existsSync(file))
    throw new CodedError('app_not_loaded', `there is no file ${file}`, { cure: 'Name the file of the app.' });
  try {
    const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
    if (isApp(module.default)) return module.default;
  } catch (error) {
    const at = placeOf(error, file);
    throw new CodedError('app_not_loaded', `the app module ${file} could not be loaded: ${reasonOf(error)}${at}`, {
      cause: error,
      cure: 'Correct the module; --debug shows the whole stack.',
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
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
    return `${message}; Node only strips types: "erasableSyntaxOnly" in tsconfig.json finds what it cannot strip, such as an enum`;
  return message;
}

/**
 * Where it went wrong, in code that is not this package's nor Node's, as ` (FILE:LINE)`; empty where that is not known, and where the words say it
 * already.
 */
function placeOf(error: unknown, file: string): string {
  if (!(error instanceof Error)) return '';
  const lines = (error.stack ?? '').split('\n').filter((line) => line.includes('/'));
  const ours = lines.find((line) => line.includes(dirname(file)) && !line.includes('/node_modules/'));
  const found = framePlace(ours ?? '');
  if (found === null) return '';
  const place = `${found.file.replace(/^file:\/\//, '')}:${found.line}`;
  return error.message.includes(place) ? '' : ` (${place})`;
}

const isApp = (value: unknown): value is App =>
  typeof value === 'object' &&
  value !== null &&
  'agents' in value &&
  value.agents instanceof Map &&
  'tools' in value &&
  value.tools instanceof Map;
