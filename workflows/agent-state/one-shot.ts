/** Agents that are made for one turn. */

/** What the id of a one-shot agent looks like, behind that of its tenant: one that is made for one turn, by `run`. */
const ONE_SHOT_AGENT_ID = /^(?:[^~]+~)?run-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether the agent was made for one turn, by its id. */
export const isOneShotAgent = (agentId: string): boolean => ONE_SHOT_AGENT_ID.test(agentId);
