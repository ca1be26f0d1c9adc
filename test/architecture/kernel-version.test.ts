import { expect, test } from '@jest/globals';
import { kernelVersion } from '../../scripts/kernel-version.ts';
import { KERNEL_VERSION } from '../../workflows/kernel/version.ts';

test('the version of the kernel is that of its sources: npm run kernel-version writes it', () => {
  expect(KERNEL_VERSION).toBe(kernelVersion());
});
