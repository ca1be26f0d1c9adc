/** Files that are on disk when the call that wrote them returns. Errors: those of the file system. */
import { constants, type PathLike } from 'node:fs';
import { type FileHandle, link, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

const COMPARED_BYTES = 256 * 1024;
/** Nobody else's business: they hold what was said. */
const MODE = 0o600;

/** A symbolic link in the place of a file leads out of the folder, and is refused. */
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = constants;

/** Opens a file to read it; null where there is none. */
export async function openToRead(path: string): Promise<FileHandle | null> {
  return orNull(open(path, O_RDONLY | O_NOFOLLOW));
}

/** Opens a file that is there, to cut it and to append to it. */
export const openToAppend = (path: string): Promise<FileHandle> => open(path, O_RDWR | O_APPEND | O_NOFOLLOW);

/** Makes what the directory says of its files last. */
export async function syncFolder(path: PathLike): Promise<void> {
  const folder = await open(path, O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/**
 * Puts a file in the place of the one that was there, in one step: whoever reads meanwhile, or after a crash, finds the old one or the new one.
 * `write` fills it. With `keeping`, one that was there and has what the new one does not begin with is kept beside it, under the path that is
 * returned. Two that replace the same file at once must be kept apart by the caller.
 */
export async function replaceFile(
  path: string,
  write: (file: FileHandle) => Promise<void>,
  { keeping = false }: { readonly keeping?: boolean } = {},
): Promise<string | null> {
  const temporary = `${path}.new`;
  const file = await open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, MODE);
  try {
    await write(file);
    await file.sync();
  } catch (error) {
    await file.close();
    await unlink(temporary).catch(() => {});
    throw error;
  }
  await file.close();
  const kept = keeping && !(await beginsWith(temporary, path)) ? await keep(path) : null;
  await rename(temporary, path);
  await syncFolder(dirname(path));
  return kept;
}

/** Whether a file begins with all that another one has, also where there is no other one. */
async function beginsWith(path: string, beginning: string): Promise<boolean> {
  const before = await openToRead(beginning);
  const now = await openToRead(path);
  try {
    if (!before || !now) return before === null;
    const [one, other] = [Buffer.alloc(COMPARED_BYTES), Buffer.alloc(COMPARED_BYTES)];
    for (let at = 0; ; ) {
      const { bytesRead } = await before.read(one, 0, COMPARED_BYTES, at);
      if (bytesRead === 0) return true;
      const same = await now.read(other, 0, bytesRead, at);
      if (same.bytesRead < bytesRead || !one.subarray(0, bytesRead).equals(other.subarray(0, bytesRead))) return false;
      at += bytesRead;
    }
  } finally {
    await before?.close();
    await now?.close();
  }
}

/** Gives the file a second name that is free, which lasts when the first one is given to another file; returns it. */
async function keep(path: string): Promise<string> {
  for (let number = 1; ; number += 1) {
    const kept = `${path}.${number}`;
    try {
      await link(path, kept);
      return kept;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** What a promise of a file gives; null where the file is not there. */
async function orNull<T>(promise: Promise<T>): Promise<T | null> {
  try {
    return await promise;
  } catch (error) {
    // In a folder that is none, no file is.
    if (isMissing(error) || codeOf(error) === 'ENOTDIR') return null;
    throw error;
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | null)?.code;

/** Whether an error says that there is no such file. */
export const isMissing = (error: unknown): boolean => codeOf(error) === 'ENOENT';
