/**
 * What the bundler makes a workflow thread evaluate once, before its first workflow, instead of once for each workflow.
 *
 * Invariant: the modules named here, and all they import, are shared by every workflow of the thread, and what they export is frozen. None
 * of them may keep state outside of the objects it makes.
 */
import './index.ts';
import './payload-converter.ts';

/** How many frames a stack trace has. Each frame is looked up in the source map, and the first few say where an error comes from. */
const STACK_FRAMES = 5;

// The type of `Error` in the language's own library lacks this property, which V8 reads.
Object.assign(Error, { stackTraceLimit: STACK_FRAMES });

/**
 * The sources that the SDK evaluates for every promise of a workflow, with what they are answered here. The SDK takes a stack trace of each
 * promise for its query `__stack_trace`, which would be half of what a turn costs its thread. It reaches into the workflow by
 * `promise.constructor.constructor(source)` and expects the constructor of functions there. What it gets here knows these two sources
 * without compiling them, and answers the source for `Error` with a class that has no stack, so that no trace is kept. Any other source is
 * compiled as usual. What a turn waits for can be seen in its details in the Web UI and by the query `turn_state`.
 */
const known = new Map<string, () => unknown>([
  ['return globalThis.__TEMPORAL_ACTIVATOR__', () => Reflect.get(globalThis, '__TEMPORAL_ACTIVATOR__')],
  ['return globalThis.Error', () => Object],
]);
Object.defineProperty(Promise, 'constructor', { value: (source: string) => known.get(source) ?? Function(source) });
