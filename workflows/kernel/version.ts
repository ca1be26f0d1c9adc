/** The version of the kernel, by which a burst knows that it runs the same as the workflow: scripts/kernel-version.ts writes it. */
export const KERNEL_VERSION = 'd254374dfbc0cdf0';
