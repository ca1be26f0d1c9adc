import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { profileSchema, toolSpecSchema } from '../../../workflows/protocol/profile.ts';

const problems = (schema: z.ZodType, value: unknown): string => {
  const parsed = schema.safeParse(value);
  return parsed.success ? '' : z.prettifyError(parsed.error);
};

const tooLong = 365 * 24 * 3_600_000 + 1;

describe('a profile', () => {
  test('needs a name only; everything else has a default', () => {
    expect(profileSchema.parse({ name: 'helper' })).toMatchObject({
      name: 'helper',
      description: '',
      workerTarget: 'worker_generic',
      model: {},
      instructions: '',
      allowedTools: null,
      mustEndWith: [],
      budgets: { maxSteps: 50, maxTokens: 1_000_000 },
      tags: [],
    });
  });

  test.each([
    ['name', { name: 'no spaces' }],
    ['workerTarget', { workerTarget: 'a.b' }],
    ['model.temperature', { model: { temperature: 3 } }],
    ['model.maxTokens', { model: { maxTokens: 0 } }],
    ['model.reasoningEffort', { model: { reasoningEffort: 'extreme' } }],
    ['allowedTools[1]', { allowedTools: ['good', 'not good'] }],
    ['mustEndWith[0]', { mustEndWith: ['not good'] }],
    ['budgets.maxSteps', { budgets: { maxSteps: 0 } }],
    ['budgets.maxTokens', { budgets: { maxTokens: 1.5 } }],
    ['resultFields.fields[0].name', { resultFields: { fields: [{ name: '' }] } }],
    ['suspendTimeoutMs', { suspendTimeoutMs: -1 }],
  ])('with a bad %s is refused by that path', (path, more) => {
    expect(problems(profileSchema, { name: 'helper', ...more })).toContain(`at ${path}`);
  });

  test.each([
    ['suspendTimeoutMs', { suspendTimeoutMs: tooLong }],
    ['budgets.maxWallTimeMs', { budgets: { maxWallTimeMs: tooLong } }],
    ['timeouts.dispatchMs', { timeouts: { dispatchMs: tooLong } }],
    ['timeouts.noProgressMs', { timeouts: { noProgressMs: tooLong } }],
    ['timeouts.turnMs', { timeouts: { turnMs: tooLong } }],
    ['timeouts.deadWorkflowGraceMs', { timeouts: { deadWorkflowGraceMs: Number.MAX_SAFE_INTEGER } }],
    ['governance.approvals.deadlineMs', { governance: { approvals: { deadlineMs: tooLong } } }],
    ['governance.rateLimits[0].windowMs', { governance: { rateLimits: [{ tool: '*', max: 1, windowMs: tooLong }] } }],
  ])('with a %s of more than a year is refused by that path (T13)', (path, more) => {
    const said = problems(profileSchema, { name: 'helper', ...more });
    expect(said).toContain(`at ${path}`);
    expect(said).toContain('a year');
  });

  test.each([
    ['instruction', { instruction: 'x' }],
    ['maxStep', { budgets: { maxStep: 3 } }],
    ['temprature', { model: { temprature: 1 } }],
  ])('with the misspelt field %s is refused by its name', (field, more) => {
    expect(problems(profileSchema, { name: 'helper', ...more })).toContain(field);
  });
});

describe('the spec of a tool', () => {
  const spec = {
    name: 'add',
    description: 'adds',
    parameters: { type: 'object' },
    afterExecution: 'continue',
    timeoutMs: 1,
    sideEffects: 'none',
  };

  test.each([
    ['name', { name: 'a b' }],
    ['timeoutMs', { timeoutMs: 0 }],
    ['timeoutMs', { timeoutMs: 2_500_000_000 }],
    ['suspendTimeoutMs', { suspendTimeoutMs: 0 }],
    ['suspendTimeoutMs', { suspendTimeoutMs: tooLong }],
    ['afterExecution', { afterExecution: 'stop' }],
    ['sideEffects', { sideEffects: 'some' }],
  ])('with a bad %s is refused by that path', (path, more) => {
    expect(problems(toolSpecSchema, spec)).toBe('');
    expect(problems(toolSpecSchema, { ...spec, ...more })).toContain(`at ${path}`);
  });
});
