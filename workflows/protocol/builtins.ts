/**
 * Names of the built-in tools that turn, kernel or store do something particular for. A built-in tool that needs nothing of the kind is not
 * named here: `activities/tools/builtin/registry.ts` lists them all.
 */
export const SUBMIT_RESULT = 'submit_result';
export const READ_RESULT = 'read_result';
export const SKILL = 'skill';
export const UPDATE_PLAN = 'update_plan';
export const DELEGATE_ASYNC = 'delegate_async';
export const ASK_EXPERT = 'ask_expert';

/** Whether a call of the tool opens a turn of another agent, which spends of its caller's budgets (K9). */
export const isDelegation = (tool: string): boolean => tool === DELEGATE_ASYNC || tool === ASK_EXPERT;

/** Whether the tool does nothing to the world: its calls are no progress, and no repetition either (K12). */
export const isMetaTool = (tool: string): boolean =>
  tool === SUBMIT_RESULT || tool === READ_RESULT || tool === SKILL || tool === UPDATE_PLAN;
