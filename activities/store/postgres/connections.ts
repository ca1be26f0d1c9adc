/** How many PostgreSQL connections a process opens. */

/** Connections of a process where nobody names another number; measured in docs/performance.md. */
export const DEFAULT_CONNECTIONS = 10;

/** The fewest connections of a process: one listens, one is left to reads, one writes. */
export const FEWEST_CONNECTIONS = 3;
