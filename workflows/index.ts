/** Bundle entry: what a worker serves. */
export { agent } from './agent.ts';
export { agentTurn } from './agent-turn.ts';
export { supervise } from './supervise.ts';
export { unknownType as default } from './unknown-type.ts';
