/**
 * A folder of documents that tools may read.
 *
 * Invariants
 * 1. Nothing outside the folder is read, whatever the path says and wherever a link leads: what counts is the real path.
 * 2. Hidden files, `node_modules` and binary files do not exist for its readers, also when they are asked for by name.
 * 3. Work and memory are bounded: at most 2,000 files, 1 MiB of each.
 */
import { type FileHandle, open, readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { CodedError } from '../../workflows/protocol/failures.ts';

const MAX_FILES = 2_000;
const MAX_FILE_BYTES = 1024 * 1024;
/** How much of a file is read to find out whether it is binary. */
const SNIFFED_BYTES = 8 * 1024;

/** A file of the folder. */
export type FolderFile = {
  /** The path relative to the folder, with `/` on every system. */
  readonly path: string;
  readonly bytes: number;
};

/** The files of a folder. */
export interface FolderListing {
  /** The files that were found, shallow ones first, then by name. */
  readonly files: readonly FolderFile[];
  /** Whether there are more files than are listed. */
  readonly truncated: boolean;
}

/** A folder of text files. */
export class Folder {
  readonly #root: string;
  readonly #include: ReadonlySet<string> | undefined;

  private constructor(root: string, include: readonly string[] | undefined) {
    this.#root = root;
    this.#include = include && new Set(include);
  }

  /**
   * Opens a folder. `include` holds the only names seen at its top; all are when it is absent. Throws `invalid_config` when there is no such
   * folder.
   */
  static async open(dir: string, include?: readonly string[]): Promise<Folder> {
    const path = resolve(dir);
    const root = await realpath(path).catch(() => undefined);
    if (root !== undefined && (await stat(root)).isDirectory()) return new Folder(root, include);
    throw new CodedError('invalid_config', `${path} is not a folder; name one that is there with --dir`);
  }

  /** All text files of the folder, at most 2,000. Throws when `signal` fires. */
  async list(signal?: AbortSignal): Promise<FolderListing> {
    const files: FolderFile[] = [];
    // The walk goes level by level, so that the deepest files are those that are cut off.
    for (let level = [''], next: string[] = []; level.length > 0; level = next, next = []) {
      for (const folder of level) {
        signal?.throwIfAborted();
        for (const path of await this.#namesIn(folder)) {
          const entry = await this.#entry(path);
          if (entry === 'folder') next.push(path);
          if (typeof entry !== 'object') continue;
          if (files.length === MAX_FILES) return { files, truncated: true };
          files.push(entry);
        }
      }
    }
    return { files, truncated: false };
  }

  /** The text of a file, at most its first MiB. Throws, with a message that is written for a model, when there is no such text file. */
  async read(path: string): Promise<string> {
    const real = await this.#real(path);
    if (real === undefined)
      throw new Error(`there is no file ${JSON.stringify(path)} in the folder; list_files names all`);
    return withFile(real, async (file) => {
      if (await isBinary(file)) throw new Error(`${path} is not a text file`);
      return readStart(file, MAX_FILE_BYTES);
    });
  }

  async #namesIn(folder: string): Promise<string[]> {
    const entries = await readdir(join(this.#root, folder), { withFileTypes: true }).catch(() => []);
    return entries
      .filter((entry) => entry.isFile() || entry.isDirectory() || entry.isSymbolicLink())
      .map((entry) => (folder === '' ? entry.name : `${folder}/${entry.name}`))
      .filter((path) => this.#isVisible(path))
      .sort();
  }

  /** What there is at a path. A link to a folder is skipped: it may lead in circles, and a folder inside this one is listed where it is. */
  async #entry(path: string): Promise<FolderFile | 'folder' | 'skipped'> {
    const real = await this.#real(path, 'any');
    if (real === undefined) return 'skipped';
    const found = await stat(real);
    if (found.isDirectory()) return real === join(this.#root, path) ? 'folder' : 'skipped';
    const binary = await withFile(real, isBinary).catch(() => true);
    return binary ? 'skipped' : { path, bytes: found.size };
  }

  /** The real path of what may be read, undefined for everything else. */
  async #real(path: string, kind: 'file' | 'any' = 'file'): Promise<string | undefined> {
    if (path === '' || isAbsolute(path)) return undefined;
    const real = await realpath(join(this.#root, path)).catch(() => undefined);
    if (real === undefined) return undefined;
    const inside = relative(this.#root, real).split(sep).join('/');
    if (inside === '' || inside.startsWith('..') || isAbsolute(inside) || !this.#isVisible(inside)) return undefined;
    const found = await stat(real).catch(() => undefined);
    // Nothing but files and folders is opened, because reading a pipe or a device might not end.
    return found?.isFile() || (kind === 'any' && found?.isDirectory()) ? real : undefined;
  }

  #isVisible(path: string): boolean {
    const names = path.split('/');
    const top = names[0] ?? '';
    if (this.#include && !this.#include.has(top)) return false;
    return names.every((name) => !name.startsWith('.') && name !== 'node_modules');
  }
}

async function withFile<T>(path: string, body: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path);
  try {
    return await body(file);
  } finally {
    await file.close();
  }
}

async function isBinary(file: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(SNIFFED_BYTES), 0, SNIFFED_BYTES, 0);
  return buffer.subarray(0, bytesRead).includes(0);
}

async function readStart(file: FileHandle, limit: number): Promise<string> {
  const { size } = await file.stat();
  const buffer = Buffer.alloc(Math.min(size, limit));
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.toString('utf8', 0, length);
}
