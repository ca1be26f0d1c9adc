import { describe, expect, test } from '@jest/globals';
import { proposalContext, readOne } from '../../../support/proposed-calls.ts';

const skills = [{ name: 'debug', description: 'd', content: 'read the log first' }];

const called = async (name: string) =>
  (await readOne('skill', { name }, proposalContext({ profile: { skills } }))).call;

describe('skill', () => {
  test('is answered by its instructions while it is proposed, and the kernel is told which one (K8)', async () => {
    expect(await called('debug')).toMatchObject({
      skill: 'debug',
      result: { status: 'success', result: { skill: 'debug', instructions: 'read the log first' } },
    });
  });

  test('that is not there is an error that names those that are (K8)', async () => {
    const call = await called('cook');
    expect(call).toMatchObject({ result: { status: 'failed', error: { message: expect.stringContaining('debug') } } });
    expect(call).not.toHaveProperty('skill');
  });

  test('with a very long name is an error of few words (K8)', async () => {
    const { message = '' } = (await called('x'.repeat(100_000)))?.result?.error ?? {};
    expect(Buffer.byteLength(message)).toBeLessThan(9_000);
    expect(message).not.toBe('');
  });
});
