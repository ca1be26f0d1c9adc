import { describe, expect, test } from '@jest/globals';
import { withCleanup } from '../../../workers/commands/cleanup.ts';

describe('what a command opened', () => {
  test('is closed in the opposite order, also when the body and a closer fail', async () => {
    const closed: string[] = [];
    const failing = withCleanup(async (cleanup) => {
      cleanup.add(() => closed.push('first'));
      cleanup.add(() => Promise.reject(new Error('closer')));
      cleanup.add(() => closed.push('third'));
      throw new Error('body');
    });
    await expect(failing).rejects.toThrow('body');
    expect(closed).toEqual(['third', 'first']);
  });

  test('a closer that fails is an error when the body did not', async () => {
    const failing = withCleanup(async (cleanup) => {
      cleanup.add(() => Promise.reject(new Error('closer')));
    });
    await expect(failing).rejects.toThrow('closer');
  });
});
