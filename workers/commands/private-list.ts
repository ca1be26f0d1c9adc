/** A file with a list that nobody else of this machine is to read: hashes of tokens, secrets of webhooks. */
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { makeFolder } from '../../activities/folder.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

/** The items of the file; none where there is no file. `what` they are, for people. Errors: `invalid_config`. */
export function readPrivateList<Item extends z.ZodType>(
  file: string,
  item: Item,
  what: string,
): readonly z.output<Item>[] {
  if (!existsSync(file)) return [];
  try {
    return z.array(item).parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw new CodedError('invalid_config', `the ${what} in ${file} cannot be read: ${reason}`);
  }
}

/** A reader finds the old file or the new one, and nobody else of this machine reads it. */
export function writePrivateList(file: string, items: readonly unknown[]): void {
  makeFolder(dirname(file));
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(items, null, 2)}\n`, { mode: 0o600 });
  chmodSync(written, 0o600);
  renameSync(written, file);
}
