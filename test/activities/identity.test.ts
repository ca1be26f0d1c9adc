/** Activities that carry a lease run only for the workflow that holds it. */
import { describe, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { ofItsOwnTurn } from '../../activities/identity.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';

const FENCE = { agentId: 'alice', agentTurnId: 't1', turnEpoch: 3 };
const OWN = turnWorkflowId('alice', 't1');

describe('an activity', () => {
  const runIn = async (workflowId: string, input: unknown) => {
    const seen: unknown[] = [];
    const { note } = ofItsOwnTurn({
      note: async (given: unknown) => {
        seen.push(given);
        return 'done';
      },
    });
    const environment = new MockActivityEnvironment({ workflowExecution: { workflowId, runId: 'r' } });
    const outcome = await environment.run(note, input).catch((error: unknown) => error);
    return { outcome, seen };
  };

  test('runs for the workflow that its lease names (T1)', async () => {
    const input = { ...FENCE, callId: 'c' };
    expect(await runIn(OWN, input)).toEqual({ outcome: 'done', seen: [input] });
  });

  test.each([
    ['a workflow that somebody started with a copy of the lease', 'copy-of/t1'],
    ['the workflow of another turn of the agent', turnWorkflowId('alice', 't2')],
    ['the workflow of another agent', turnWorkflowId('bob', 't1')],
    ['the acceptor of the agent', 'agents/alice'],
    ['no workflow', ''],
  ])('does nothing for %s (T1, T5)', async (_who, workflowId) => {
    const { outcome, seen } = await runIn(workflowId, FENCE);
    expect(outcome).toMatchObject({ code: 'protocol_violation', message: expect.stringContaining(OWN) });
    expect(seen).toEqual([]);
  });

  test.each([
    ['a request of a foreign client', { agentId: 'alice', agentTurnId: 't9', body: {} }],
    ['nothing', undefined],
  ])('that carries no lease but %s runs for any workflow (T3)', async (_what, input) => {
    expect((await runIn('agents/alice', input)).outcome).toBe('done');
  });
});
