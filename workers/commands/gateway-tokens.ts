/** The file in which the tokens of a gateway are kept, as hashes. */
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { makeFolder } from '../../activities/folder.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { type GatewayToken, gatewayTokenSchema, keptToken, newToken, SCOPES } from '../../client/gateway/caller.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Config } from '../config.ts';
import type { GatewayTokenOptions } from './process-commands.ts';
import { type Settings, settingsOf } from './settings.ts';

const FILE = 'gateway-tokens.json';

const fileSchema = z.array(gatewayTokenSchema);

/** Where tokens are kept: as named, or in the data folder. */
export const tokensFile = ({ config, dataDir }: Settings): string => config.gateway.tokensFile ?? join(dataDir, FILE);

/** The tokens of the file, and the one of the environment, which may do everything. Errors: `invalid_config`. */
export function knownTokens(settings: Settings): readonly GatewayToken[] {
  const { token } = settings.config.gateway;
  const operator = token === undefined ? [] : [keptToken(token, { name: 'operator', scopes: [...SCOPES] })];
  return [...readTokens(tokensFile(settings)), ...operator];
}

function readTokens(file: string): readonly GatewayToken[] {
  if (!existsSync(file)) return [];
  try {
    return fileSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw new CodedError('invalid_config', `the tokens in ${file} cannot be read: ${reason}`);
  }
}

/** `gateway token`: makes a token, prints it once, and keeps its hash. Resolves with the exit code. */
export async function gatewayToken(config: Config, io: CliIo, options: GatewayTokenOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const file = tokensFile(settings);
  const { name, scopes = ['read'], agents } = options;
  const wanted = gatewayTokenSchema
    .omit({ sha256: true })
    .safeParse({ name, scopes, ...(agents === undefined ? {} : { agents }) });
  if (!wanted.success) throw new CodedError('invalid_config', `the token: ${z.prettifyError(wanted.error)}`);
  const others = readTokens(file).filter((token) => token.name !== name);
  const { token, kept } = newToken(wanted.data);
  writeTokens(file, [...others, kept]);
  if (options.json) io.out(JSON.stringify({ token, name, scopes, file }));
  else io.out(token);
  io.err(`the token of ${name} for ${scopes.join(', ')}; its hash is in ${file}, and it is not shown again`);
  return 0;
}

/** A reader finds the old file or the new one, and nobody else of this machine reads it. */
function writeTokens(file: string, tokens: readonly GatewayToken[]): void {
  makeFolder(dirname(file));
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(tokens, null, 2)}\n`, { mode: 0o600 });
  chmodSync(written, 0o600);
  renameSync(written, file);
}
