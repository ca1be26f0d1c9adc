/** Where this package is installed, and what its manifest says. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
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
