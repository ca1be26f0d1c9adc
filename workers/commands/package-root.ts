/** Where this package is installed, and what its manifest says. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of this package's `package.json`: above the sources, and above a build of them. */
export function packageRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json')) && dirname(dir) !== dir) dir = dirname(dir);
  return dir;
}

/** What is read of this package's manifest. */
export interface PackageManifest {
  readonly version: string;
  readonly peerDependencies: Readonly<Record<string, string>>;
  /** Exact versions, which the package is tested with. */
  readonly devDependencies: Readonly<Record<string, string>>;
}

/** This package's `package.json`. */
export const packageManifest = (): PackageManifest =>
  JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as PackageManifest;

/**
 * How a project in the folder `dir` depends on the package that runs here: by its version when it came from a registry, else by the tarball
 * or the folder that it was installed from, which no registry has.
 */
export function dependencySpec(dir: string): string {
  const root = packageRoot();
  const source = sourceOf(root);
  if (source === undefined) return `^${packageManifest().version}`;
  return `file:${relative(dir, existsSync(source) ? source : root)}`;
}

/** The tarball or the folder that the package at `root` came from; undefined when it came from a registry. */
function sourceOf(root: string): string | undefined {
  const modules = dirname(root);
  // A linked folder is seen by its own path, outside of all installations.
  if (basename(modules) !== 'node_modules') return root;
  const project = dirname(modules);
  const resolved = resolvedIn(join(modules, '.package-lock.json'), `node_modules/${basename(root)}`);
  return resolved?.startsWith('file:') ? resolve(project, resolved.slice('file:'.length)) : undefined;
}

/** Where npm took an installed package from, as it wrote it down; undefined where another tool installed it. */
function resolvedIn(lockFile: string, path: string): string | undefined {
  if (!existsSync(lockFile)) return undefined;
  const { packages } = JSON.parse(readFileSync(lockFile, 'utf8')) as {
    readonly packages?: Readonly<Record<string, { readonly resolved?: string }>>;
  };
  return packages?.[path]?.resolved;
}
