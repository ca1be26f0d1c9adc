/**
 * What the bundler makes a workflow thread evaluate once, before its first workflow, instead of once for each.
 *
 * Invariant: the modules named here, and all they import, are shared by every workflow of the thread, and what they export is frozen.
 * None may keep state outside of the objects it makes.
 */
import './index.ts';
import './payload-converter.ts';

/** Frames of a stack trace: each is looked up in the source map, and those that say where an error comes from are the first. */
const STACK_FRAMES = 5;

// By assignment: the language's own library does not know the property.
Object.assign(Error, { stackTraceLimit: STACK_FRAMES });

/**
 * The SDK takes a stack trace of every promise of a workflow, for the query `__stack_trace`; that was half of what a turn cost its thread.
 * It reaches into the workflow by `promise.constructor.constructor(source)`, where it expects the constructor of functions: what it gets
 * here knows its two sources without compiling them, and answers the one for `Error` with one that has no stack, so that nothing is kept.
 * Any other source is compiled as before. What a turn waits for, its details in the Web UI and the query `turn_state` say.
 */
const known = new Map<string, () => unknown>([
  ['return globalThis.__TEMPORAL_ACTIVATOR__', () => Reflect.get(globalThis, '__TEMPORAL_ACTIVATOR__')],
  ['return globalThis.Error', () => Object],
]);
Object.defineProperty(Promise, 'constructor', { value: (source: string) => known.get(source) ?? Function(source) });
