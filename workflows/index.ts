/** The entry of the workflow bundle: the workflow types that a worker serves. */
export { agent } from './agent.ts';
export { supervise } from './supervise.ts';
export { agentTurn } from './turn/turn.ts';
export { unknownType as default } from './unknown-type.ts';
