/**
 * What the bundler makes a workflow thread evaluate once, before its first workflow, instead of once for each.
 *
 * Invariant: the modules named here, and all they import, are shared by every workflow of the thread, and what they export is frozen.
 * None may keep state outside of the objects it makes.
 */
import './index.ts';
import './payload-converter.ts';

/**
 * Frames of a stack trace. The SDK writes one for every promise of a workflow, and looking up each frame in the source map was the
 * greatest part of what a turn cost its thread; those that say where an error comes from are the first.
 */
const STACK_FRAMES = 5;

// By assignment: the language's own library does not know the property.
Object.assign(Error, { stackTraceLimit: STACK_FRAMES });
