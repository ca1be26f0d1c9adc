/** Files that are on disk when the call that wrote them returns. Errors: those of the file system. */
import { constants, type PathLike } from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

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
 * `write` fills it. Two that replace the same file at once must be kept apart by the caller.
 */
export async function replaceFile(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
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
  await rename(temporary, path);
  await syncFolder(dirname(path));
}

/** What a promise of a file gives; null where the file is not there. */
async function orNull<T>(promise: Promise<T>): Promise<T | null> {
  try {
    return await promise;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Whether an error says that there is no such file. */
export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException | null)?.code === 'ENOENT';
