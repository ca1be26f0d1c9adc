/**
 * Names of the built-in tools that turn, kernel or store do something particular for. A built-in tool that needs nothing of the kind is not
 * named here: `activities/tools/builtin/registry.ts` lists them all.
 */
export const SUBMIT_RESULT = 'submit_result';
/** Shows the model the rest of a result that is rendered shortened (W11). */
export const READ_RESULT = 'read_result';
/** Takes up a skill of the profile (K8). */
export const SKILL = 'skill';
/** Writes down the model's plan (K14). */
export const UPDATE_PLAN = 'update_plan';
/** Ends the turn until something that is waited for has come (A8). */
export const WAIT_FOR = 'wait_for';
/** Hands work to another agent and goes on (W12). */
export const DELEGATE_ASYNC = 'delegate_async';
/** Hands work to another agent and waits for its end (W12). */
export const ASK_EXPERT = 'ask_expert';

/** Whether a call of the tool opens a turn of another agent, which spends of its caller's budgets (K9). */
export const isDelegation = (tool: string): boolean => tool === DELEGATE_ASYNC || tool === ASK_EXPERT;

/**
 * Whether it is one of the tools that only handle what the turn has; their calls count neither as progress nor as repetition (K12). A submission is
 * none: one that is taken ends the turn, and one that is not is a call like any other.
 */
export const isMetaTool = (tool: string): boolean => tool === READ_RESULT || tool === SKILL || tool === UPDATE_PLAN;
