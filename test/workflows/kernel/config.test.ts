import { describe, expect, test } from '@jest/globals';
import { kernelConfig as configOf } from '../../../workflows/kernel/config.ts';
import type { ResultFields } from '../../../workflows/protocol/enqueue.ts';
import { type ProfileInput, type ProfileSnapshot, profileSchema } from '../../../workflows/protocol/profile.ts';

const snapshot = (profile: Partial<ProfileInput>, ...tools: readonly string[]): ProfileSnapshot => ({
  profile: profileSchema.parse({ name: 'p', ...profile }),
  tools: tools.map((name) => ({
    name,
    description: '',
    parameters: { type: 'object' },
    afterExecution: 'continue',
    timeoutMs: 1,
    sideEffects: 'none',
  })),
  builtins: [],
  warnings: [],
});

const fields = (...required: readonly boolean[]) => ({
  fields: required.map((needed, index) => ({ name: `f${index}`, description: '', required: needed })),
});

const kernelConfig = (profile: ProfileSnapshot, fields: ResultFields | null) => configOf(profile, fields, 300);

describe('what the kernel knows of a profile', () => {
  test('are its budgets, with the defaults of 50 steps, 200 tool calls and 1,000,000 tokens (K9)', () => {
    expect(kernelConfig(snapshot({}), null).budgets).toEqual({
      maxSteps: 50,
      maxToolCalls: 200,
      maxTokens: 1_000_000,
      onExhausted: 'finish',
    });
    expect(kernelConfig(snapshot({ budgets: { maxSteps: 3 } }), null).budgets.maxSteps).toBe(3);
  });

  test('is a required ending, of which only offered tools are kept (W13)', () => {
    const { mustEndWith } = kernelConfig(
      snapshot({ mustEndWith: ['publish', 'gone', 'submit_result'] }, 'publish'),
      null,
    );
    expect(mustEndWith).toEqual(['publish', 'submit_result']);
  });

  test('is no required ending when none of its tools is offered (W13)', () => {
    expect(kernelConfig(snapshot({ mustEndWith: ['gone'] }), null).mustEndWith).toEqual([]);
  });

  test.each([{ ids: ['read'] }, { kinds: ['agent' as const] }])(
    'is no required ending that its capabilities %j do not let through (K8, W13)',
    (capabilities) => {
      const profile = snapshot({ mustEndWith: ['publish'], capabilities }, 'read', 'publish');
      expect(kernelConfig(profile, null).mustEndWith).toEqual([]);
      expect(kernelConfig(profile, fields(true)).mustEndWith).toEqual(['submit_result']);
    },
  );

  test('is submit_result as the ending when a result field is required (T28)', () => {
    expect(kernelConfig(snapshot({}), fields(false, true)).mustEndWith).toEqual(['submit_result']);
    expect(kernelConfig(snapshot({}), fields(false)).mustEndWith).toEqual([]);
    expect(kernelConfig(snapshot({}), null).mustEndWith).toEqual([]);
  });

  test('is the ending the profile names rather than submit_result (T28)', () => {
    const { mustEndWith } = kernelConfig(snapshot({ mustEndWith: ['publish'] }, 'publish'), fields(true));
    expect(mustEndWith).toEqual(['publish']);
  });

  test('falls back to submit_result for required fields when the ending it names is not offered (W13, T28)', () => {
    const { mustEndWith } = kernelConfig(snapshot({ mustEndWith: ['gone'] }), fields(true));
    expect(mustEndWith).toEqual(['submit_result']);
  });
});
