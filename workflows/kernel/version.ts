/** The version of the kernel, by which a burst knows that it runs the same as the workflow: scripts/kernel-version.ts writes it. */
export const KERNEL_VERSION = '24bd8c8c6b535415';
