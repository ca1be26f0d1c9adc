/** How a process writes its log and how much of it, as options and the environment name it. */

/** `text`: for people. `json`: an object on each line, with `time`, `level`, `message` and the entry's own fields. */
export const LOG_FORMATS = ['text', 'json'] as const;
/** How a line of the log is written. */
export type LogFormat = (typeof LOG_FORMATS)[number];

/** How important a line of the log is, the least important first. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
/** From which importance on a process writes lines of its log. */
export type LogThreshold = (typeof LOG_LEVELS)[number];
