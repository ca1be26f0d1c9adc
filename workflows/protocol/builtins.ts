/** Names of the tools the runtime itself answers. */
export const SUBMIT_RESULT = 'submit_result';
export const READ_RESULT = 'read_result';
export const SKILL = 'skill';
export const UPDATE_PLAN = 'update_plan';
export const DELEGATE_ASYNC = 'delegate_async';
export const ASK_EXPERT = 'ask_expert';

export const BUILTINS: readonly string[] = [SUBMIT_RESULT, READ_RESULT, SKILL, UPDATE_PLAN, DELEGATE_ASYNC, ASK_EXPERT];

/** Offered only to a profile with a delegation policy. */
export const isDelegation = (tool: string): boolean => tool === DELEGATE_ASYNC || tool === ASK_EXPERT;

/** Tools that do nothing to the world: they are no progress, and no repetition either (K12). */
export const isMetaTool = (tool: string): boolean =>
  tool === SUBMIT_RESULT || tool === READ_RESULT || tool === SKILL || tool === UPDATE_PLAN;
