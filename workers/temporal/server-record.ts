/**
 * The record of the dev server that runs on a data folder, which clients read in order to find it.
 *
 * Invariant: a record is replaced whole, so that a reader never sees half of one.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';

/** Where the server of a data folder answers, on this machine. */
export interface ServerRecord {
  port: number;
  /** The URL of its Web UI; absent for a server without one. */
  uiUrl?: string | undefined;
  /** The process that runs the server; absent where it did not say what it serves. */
  owner?: ServerOwner | undefined;
}

/** What the process that runs a server serves turns with. */
export interface ServerOwner {
  readonly pid: number;
  /** The model of its workers, as a phrase for people. */
  readonly model: string;
  /** The worker targets that it serves. */
  readonly targets: readonly string[];
}

const recordSchema = z.object({
  port: z.number(),
  uiUrl: z.string().optional().catch(undefined),
  owner: z
    .object({ pid: z.number(), model: z.string(), targets: z.array(z.string()) })
    .optional()
    .catch(undefined),
});

/** The server that is recorded in a data folder; undefined when none is, or the record cannot be read. It may have ended since. */
export function readServerRecord(dataDir: string): ServerRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(recordFile(dataDir), 'utf8')));
  } catch {
    // Where there is no record, or one that says nothing, no server has been published.
    return undefined;
  }
}

/** Writes down where the server of a data folder answers. */
export function writeServerRecord(dataDir: string, server: ServerRecord): void {
  const record = recordFile(dataDir);
  writeFileSync(`${record}.new`, JSON.stringify(server));
  renameSync(`${record}.new`, record);
}

/** Removes the record of a data folder, if there is one. */
export function removeServerRecord(dataDir: string): void {
  rmSync(recordFile(dataDir), { force: true });
}

const recordFile = (dataDir: string): string => join(resolve(dataDir), 'temporal-server.json');
