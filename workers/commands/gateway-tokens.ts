/** The file in which the tokens of a gateway are kept, as hashes. */
import { join } from 'node:path';
import { z } from 'zod';
import type { CliIo } from '../../client/cli/environment.ts';
import { UsageError } from '../../client/cli/failure.ts';
import { type GatewayToken, gatewayTokenSchema, keptToken, newToken, SCOPES } from '../../client/gateway/caller.ts';
import type { Config } from '../config.ts';
import { readPrivateList, writePrivateList } from './private-list.ts';
import type { GatewayTokenOptions } from './process-commands.ts';
import { type Settings, settingsOf } from './settings.ts';

const FILE = 'gateway-tokens.json';

/** Where tokens are kept: as named, or in the data folder. */
export const tokensFile = ({ config, dataDir }: Settings): string => config.gateway.tokensFile ?? join(dataDir, FILE);

/** The tokens of the file, and the one of the environment, which may do everything. Errors: `invalid_config`. */
export function knownTokens(settings: Settings): readonly GatewayToken[] {
  const { token } = settings.config.gateway;
  const operator = token === undefined ? [] : [keptToken(token, { name: 'operator', scopes: [...SCOPES] })];
  return [...readTokens(tokensFile(settings)), ...operator];
}

const readTokens = (file: string): readonly GatewayToken[] => readPrivateList(file, gatewayTokenSchema, 'tokens');

/** `gateway token`: makes a token, prints it once, and keeps its hash. Resolves with the exit code. */
export async function gatewayToken(config: Config, io: CliIo, options: GatewayTokenOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const file = tokensFile(settings);
  const { name, scopes = ['read'], tenant, agents, profiles } = options;
  const wanted = gatewayTokenSchema.omit({ sha256: true }).safeParse({ name, scopes, tenant, agents, profiles });
  if (!wanted.success) throw new UsageError('invalid_config', `the token: ${z.prettifyError(wanted.error)}`);
  const others = readTokens(file).filter((token) => token.name !== name);
  const { token, kept } = newToken(wanted.data);
  writePrivateList(file, [...others, kept]);
  if (options.json) io.out(JSON.stringify({ token, name, scopes, file }));
  else io.out(token);
  io.err(`the token of ${name} for ${scopes.join(', ')}; its hash is in ${file}, and it is not shown again`);
  return 0;
}
