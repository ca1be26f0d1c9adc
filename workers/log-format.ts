/** How a worker process writes its log, as options and the environment name it. */

/** `text`: for people. `json`: an object on each line, with `time`, `level`, `message` and the entry's own fields. */
export const LOG_FORMATS = ['text', 'json'] as const;
/** How a line of the log is written. */
export type LogFormat = (typeof LOG_FORMATS)[number];
