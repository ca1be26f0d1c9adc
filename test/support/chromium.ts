/**
 * The program of a real Chromium: npm's, with the libraries and fonts that it brings, or the one that AGENTTURN_TEST_CHROMIUM names.
 *
 * npm's is packed. It is unpacked once, beside its final place, and moved there as a whole: processes that do so at the same time each
 * leave a whole one.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';

const run = promisify(execFile);
const NAMED = process.env.AGENTTURN_TEST_CHROMIUM;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGE = join(ROOT, 'node_modules', '@sparticuz', 'chromium');
const Package = z.object({ version: z.string() });
const FONTS = 'fonts.conf';
/** The package's own file looks for its fonts in /tmp. A browser without any font dies of its first text field. */
const FONTS_BESIDE = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;
/** Into the folder for temporary files, with the libraries that a small system lacks. */
const UNPACK = `
  import chromium, { inflate } from '@sparticuz/chromium';
  await chromium.executablePath();
  await inflate(${JSON.stringify(join(PACKAGE, 'bin', 'al2023.tar.br'))});
`;

/** What to start, and with which environment. */
export interface Chromium {
  readonly executablePath: string;
  readonly env: Record<string, string>;
}

/** Why there is no browser on this platform; undefined where there is one. */
export const noBrowser: string | undefined =
  NAMED || (process.platform === 'linux' && process.arch === 'x64')
    ? undefined
    : `npm has no Chromium for ${process.platform}-${process.arch}: name one with AGENTTURN_TEST_CHROMIUM`;

/** The browser's program. Errors: there is none for this platform. */
export async function findChromium(): Promise<Chromium> {
  if (noBrowser !== undefined) throw new Error(noBrowser);
  if (NAMED) return { executablePath: NAMED, env: environment() };
  const dir = await unpacked();
  const env = { ...environment(), LD_LIBRARY_PATH: join(dir, 'al2023', 'lib'), FONTCONFIG_FILE: join(dir, FONTS) };
  return { executablePath: join(dir, 'chromium'), env };
}

const environment = (): Record<string, string> =>
  Object.fromEntries(Object.entries(process.env).flatMap(([name, value]) => (value ? [[name, value]] : [])));

async function unpacked(): Promise<string> {
  const { version } = Package.parse(JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')));
  const dir = join(ROOT, 'node_modules', '.cache', 'agentturn', `chromium-${version}`);
  if (existsSync(dir)) return dir;
  mkdirSync(dirname(dir), { recursive: true });
  const fresh = mkdtempSync(`${dir}-`);
  try {
    await run(process.execPath, ['--input-type=module', '-e', UNPACK], {
      cwd: ROOT,
      env: { ...process.env, TMPDIR: fresh },
    });
    writeFileSync(join(fresh, FONTS), FONTS_BESIDE);
    renameSync(fresh, dir);
  } catch (error) {
    if (!existsSync(dir)) throw error;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return dir;
}
