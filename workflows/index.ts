/** Bundle entry: what a worker serves. */
export { agent } from './agent.ts';
export { agentTurn } from './agent-turn.ts';
