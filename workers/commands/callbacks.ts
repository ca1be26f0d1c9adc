/** What a command takes callbacks with. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../activities/folder.ts';
import { CallbackTokens } from '../../client/gateway/callback-tokens.ts';
import type { Config } from '../config.ts';
import type { CallbackOptions } from '../worker.ts';
import type { Settings } from './settings.ts';

const KEY_FILE = 'signing-key';

/** What workers make callbacks of; undefined where the key or the URL of the gateway is missing. */
export const callbacksOf = (
  { signingKeys }: Pick<Config, 'signingKeys'>,
  gatewayUrl: string | undefined,
): CallbackOptions | undefined =>
  signingKeys === undefined || gatewayUrl === undefined ? undefined : { gatewayUrl, signingKeys };

/** What a gateway knows callbacks by; undefined without a key. */
export const callbackTokens = ({ signingKeys }: Pick<Config, 'signingKeys'>): CallbackTokens | undefined =>
  signingKeys === undefined ? undefined : new CallbackTokens(signingKeys);

/** The keys of the environment, or one of the data folder, which is made where there is none: what waits for a callback outlives a restart. */
export function devSigningKeys({ config, dataDir }: Settings): readonly string[] {
  if (config.signingKeys !== undefined) return config.signingKeys;
  makeFolder(dataDir);
  const file = join(dataDir, KEY_FILE);
  try {
    writeFileSync(file, randomBytes(32).toString('hex'), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return [readFileSync(file, 'utf8').trim()];
}
