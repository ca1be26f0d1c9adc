import { expect, test } from '@jest/globals';
import { runAgentId } from '../../../client/run-agent.ts';
import { isOneShotAgent } from '../../../workflows/agent-state/one-shot.ts';

test('a one-shot agent is one that `run` makes, and none that is merely named so', () => {
  for (const agentId of [runAgentId('weather'), runAgentId('weather', 'key')])
    expect(isOneShotAgent(agentId)).toBe(true);
  for (const agentId of ['run-of-ann', `${runAgentId('weather')}-2`, 'ann'])
    expect(isOneShotAgent(agentId)).toBe(false);
});
