/** Names of the tools the runtime itself answers. */
export const SUBMIT_RESULT = 'submit_result';
