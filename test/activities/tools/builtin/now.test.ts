/** The built-in `now`, from the request in which it is offered to the result that the model reads (W12). */
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { runTool } from '../../../../activities/tools/run-tool.ts';
import type { ChatRequest, ModelAnswer } from '../../../../workers/model-server/wire.ts';
import type { ApprovalAnswer } from '../../../../workflows/contract/approvals.ts';
import type { JsonObject } from '../../../../workflows/protocol/json.ts';
import type { ProfileInput } from '../../../../workflows/protocol/profile.ts';
import { proposalContext, readOne } from '../../../support/proposed-calls.ts';
import { attempt, modelInput } from '../../llm/leased-turn.ts';
import { bench, closeBenches } from '../../llm/model-bench.ts';
import { NO_WORKFLOWS } from '../proposed-call.ts';

afterEach(closeBenches);

const MOMENT = Date.parse('2026-07-01T20:30:00.250Z');

/** A turn whose model calls `now` with these arguments. */
async function asked(args: JsonObject, profile: Partial<ProfileInput> = {}) {
  const app = defineApp({ agents: [defineAgent({ name: 'tester', builtins: ['now'], ...profile })] });
  const requests: ChatRequest[] = [];
  const answers: ModelAnswer[] = [{ kind: 'message', toolCalls: [{ name: 'now', arguments: args }] }];
  const made = await bench(
    (request) => {
      requests.push(request);
      return answers.shift() ?? { kind: 'message', content: 'done' };
    },
    { app },
  );
  const { turn, run } = made;
  const { calls } = await attempt(run, modelInput(turn));
  const [call] = calls;
  if (!call) throw new Error('nothing was called');
  const { callId } = call;
  const input = { ...turn.fence, profileHash: turn.lease.profileHash, callId, tool: 'now' };
  return {
    call,
    turn,
    requests,
    /** Runs the call at MOMENT and returns its result. */
    async ran() {
      const clock = jest.spyOn(Date, 'now').mockReturnValue(MOMENT);
      await attempt(runTool({ store: turn.store, app, workflows: NO_WORKFLOWS }), input);
      clock.mockRestore();
      return turn.store.readResult(turn.fence, callId);
    },
    answer: (answer: Omit<ApprovalAnswer, 'callId'>) =>
      turn.store.answerApproval(turn.fence.agentTurnId, { callId, ...answer }),
  };
}

const names = ([request]: readonly ChatRequest[]) => request?.tools?.map((tool) => tool.function.name);

describe('now', () => {
  test.each([
    [{}, '2026-07-01T20:30:00.250+00:00'],
    [{ timeZone: 'UTC' }, '2026-07-01T20:30:00.250+00:00'],
    [{ timeZone: 'Europe/Berlin' }, '2026-07-01T22:30:00.250+02:00'],
    [{ timeZone: 'Asia/Kathmandu' }, '2026-07-02T02:15:00.250+05:45'],
    [{ timeZone: 'America/St_Johns' }, '2026-07-01T18:00:00.250-02:30'],
  ])('with %j tells the same moment as it is written there: %s (W12)', async (args, iso) => {
    const { ran } = await asked(args);
    const result = await ran();
    expect(result).toMatchObject({ status: 'success', result: { iso, epochMs: MOMENT } });
    expect(Date.parse(iso)).toBe(MOMENT);
  });

  test.each(['Europe/Atlantis', '+02:00', '', 'x'.repeat(10_000), 7])(
    'with the time zone %j is an error that says what is expected (W9)',
    async (timeZone) => {
      const { call, turn } = await asked({ timeZone });
      expect(call.settled).toMatchObject({ status: 'failed', errorCode: 'invalid_arguments' });
      const result = await turn.store.readResult(turn.fence, call.callId);
      expect(result?.error?.message).toMatch(/timeZone/);
      if (typeof timeZone === 'string') expect(result?.error?.message).toContain('IANA');
      expect(result?.error?.message.length).toBeLessThan(500);
    },
  );

  test('is offered to agents that ask for it, and to nobody else (W12, W18)', async () => {
    expect(names((await asked({})).requests)).toEqual(['submit_result', 'read_result', 'now']);
    const { call, requests } = await asked({}, { builtins: [] });
    expect(names(requests)).toEqual(['submit_result', 'read_result']);
    expect(call.settled).toMatchObject({ status: 'failed', errorCode: 'unknown_tool' });
  });

  test('has its first start claimed with its step, because it may be started twice (W10)', async () => {
    const { call } = await readOne('now', {}, proposalContext({ offered: new Set(['now']) }));
    expect(call).toMatchObject({ claimed: true, content: { arguments: { timeZone: 'UTC' } } });
  });

  test('is seen by rules (K5)', async () => {
    const { call } = await asked({ timeZone: 'Europe/Berlin' }, { governance: { rules: rulesOn('timeZone') } });
    expect(call).toMatchObject({ tool: 'now', facts: { values: { timeZone: 'Europe/Berlin' } } });
    expect(call).not.toHaveProperty('settled');
  });

  test('runs with arguments that an approver wrote, once they match its schema (K7)', async () => {
    const { call, turn, answer, ran } = await asked({}, { governance: { rules: [{ tool: 'now', action: 'ask' }] } });
    const question = { callId: call.callId, kind: 'call', tool: 'now', reason: 'r' } as const;
    await turn.store.askApprovals(turn.fence, [question]);
    const wrong = answer({ decision: 'approved', arguments: { timeZone: 7 } });
    await expect(wrong).rejects.toMatchObject({ code: 'approval_refused' });
    await answer({ decision: 'approved', arguments: { timeZone: 'Asia/Tokyo' } });
    const result = await ran();
    expect(result).toMatchObject({ status: 'success', result: { iso: '2026-07-02T05:30:00.250+09:00' } });
  });

  test('is refused as a call when an approver wrote a time zone that there is not (K7)', async () => {
    const { call, turn, answer, ran } = await asked({}, { governance: { rules: [{ tool: 'now', action: 'ask' }] } });
    const question = { callId: call.callId, kind: 'call', tool: 'now', reason: 'r' } as const;
    await turn.store.askApprovals(turn.fence, [question]);
    await answer({ decision: 'approved', arguments: { timeZone: 'Europe/Atlantis' } });
    expect(await ran()).toMatchObject({ status: 'failed', error: { code: 'invalid_arguments' } });
  });
});

const rulesOn = (path: string) => [{ tool: 'now', action: 'deny' as const, when: { path, oneOf: ['Mars/Olympus'] } }];
