/** How long a test waits for what is to happen: a bound for what hangs, on machines that are busy with other things. It asserts no speed. */
export const WAIT = { timeoutMs: 240_000 };
