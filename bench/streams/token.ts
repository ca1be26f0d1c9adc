/** The token of the bench, which may do everything. */
export const TOKEN = 'token-of-the-bench';
