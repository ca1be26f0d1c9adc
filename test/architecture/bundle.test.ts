/** The bundle that Temporal's sandbox loads, made from the real entry as a worker makes it. */
import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { createContext, runInContext } from 'node:vm';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { keptBundle } from '../../workers/kept-bundle.ts';

const MAX_BYTES = 2_000_000;

/** What the workflow SDK itself brings; anything more came in by one of our imports. */
const PACKAGES = ['@temporalio/common', '@temporalio/workflow', 'long', 'ms', 'nexus-rpc'];

/** A module that webpack replaced by nothing. */
const isEmptied = (path: string): boolean => path.startsWith('?');

describe('the workflow bundle', () => {
  let code: string;
  /** Paths of the modules in it, relative to the repository. */
  let modules: string[];

  beforeAll(async () => {
    ({ code } = await bundleWorkflows());
    modules = [...code.matchAll(/^\/\*{3}\/ "([^"]+)"/gm)].flatMap(([, path]) => path ?? []);
  });

  test('exports the three workflows and what answers for any other type, and loads where nothing of Node is there', () => {
    const sandbox = createContext({
      __webpack_module_cache__: {},
      TextEncoder,
      TextDecoder,
      AbortController,
      URL,
      console,
    });
    runInContext(code, sandbox);
    const loaded: unknown = runInContext('const all = __TEMPORAL__.importWorkflows(); ({ ...all })', sandbox);
    expect(loaded).toEqual({
      agent: expect.any(Function),
      agentTurn: expect.any(Function),
      supervise: expect.any(Function),
      default: expect.any(Function),
    });
    expect(runInContext('typeof process + typeof Buffer + typeof require', sandbox)).toBe('undefined'.repeat(3));
  });

  test('is what a checkout keeps of it', async () => {
    const kept = await keptBundle('WARN');
    const keptCode = 'codePath' in kept ? readFileSync(kept.codePath, 'utf8') : kept.code;
    expect(keptCode === code).toBe(true);
    expect(await keptBundle('WARN')).toEqual(kept);
  });

  test('holds the workflows and the kernel', () => {
    expect(modules).toEqual(
      expect.arrayContaining([
        './workflows/turn/turn.ts',
        './workflows/kernel/step.ts',
        './workflows/payload-converter.ts',
      ]),
    );
  });

  test('holds no package but those of the SDK: no zod, no kysely, no database driver', () => {
    const packages = modules.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
    expect([...new Set(packages)].sort()).toEqual(PACKAGES);
  });

  test('holds no file of ours from outside of workflows/', () => {
    const own = modules.filter((path) => !path.includes('node_modules') && !isEmptied(path));
    expect(own.filter((path) => !path.startsWith('./workflows/'))).toEqual([]);
  });

  test('asks for no builtin of Node: what the bundler emptied is a converter that nobody set', () => {
    const emptied = [...code.matchAll(/^ +!\*\*\* (\S+) \(ignored\) \*\*\*!$/gm)].map(([, name]) => name);
    expect(emptied).toEqual(['__temporal_custom_failure_converter']);
    expect(modules.filter(isEmptied)).toHaveLength(emptied.length);
    expect(/require\(["']node:/.test(code)).toBe(false);
    expect(modules.filter((path) => /^(node:|external )/.test(path))).toEqual([]);
  });

  test('keeps the SDK from taking a stack trace of every promise, by the sources that this SDK asks with', () => {
    const globals = { __webpack_module_cache__: {}, TextEncoder, TextDecoder, AbortController, URL, console };
    const sandbox = createContext(globals);
    runInContext(code, sandbox);
    const stackOf = `new (Promise.resolve().constructor.constructor('return globalThis.Error')())().stack`;
    expect(runInContext(`typeof ${stackOf}`, sandbox)).toBe('string');
    runInContext('__TEMPORAL__.preloadModules()', sandbox);
    expect(runInContext(`typeof ${stackOf}`, sandbox)).toBe('undefined');
    expect(runInContext(`Promise.constructor('return 1 + 1')()`, sandbox)).toBe(2);
    const sdk = readFileSync(
      new URL('../../node_modules/@temporalio/worker/lib/workflow/vm-shared.js', import.meta.url),
      'utf8',
    );
    for (const source of ['return globalThis.__TEMPORAL_ACTIVATOR__', 'return globalThis.Error']) {
      expect(sdk).toContain(`'${source}'`);
      expect(code).toContain(source);
    }
  });

  test(`is smaller than ${MAX_BYTES} bytes`, () => {
    const bytes = Buffer.byteLength(code);
    console.info(`workflow bundle: ${(bytes / 1_000_000).toFixed(2)} MB in ${modules.length} modules`);
    expect(bytes).toBeLessThan(MAX_BYTES);
  });
});
