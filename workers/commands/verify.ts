/** `verify`: whether this installation keeps the promise. */
import type { CliIo } from '../../client/cli/environment.ts';
import { counted, table } from '../../client/cli/format.ts';
import { stallText } from '../../client/cli/stall.ts';
import { connectClient } from '../../client/connect.ts';
import type { Violation } from '../../workflows/contract/views.ts';
import type { Config } from '../config.ts';
import { type StalledTurn, type Verification, verifyInstallation } from '../verify.ts';
import { withCleanup } from './cleanup.ts';
import { locateTemporal, refuseOthers } from './locate-temporal.ts';
import type { VerifyOptions } from './process-commands.ts';
import { openExistingStore, settingsOf } from './settings.ts';

type Tell = (found: readonly Violation[]) => void;

/** Opens store and Temporal as they are, and checks both. Resolves with the exit code. Errors: `temporal_unreachable`, those of the store. */
export function verify(config: Config, io: CliIo, options: VerifyOptions): Promise<number> {
  const settings = settingsOf(config, options);
  return withCleanup(async (cleanup) => {
    const { client, connection } = await connectClient(await locateTemporal(settings));
    cleanup.add(() => connection.close());
    const store = await openExistingStore(settings);
    cleanup.add(() => store.close());
    await refuseOthers(client, store, settings);
    const { olderThan } = options;
    const grace = olderThan === undefined ? {} : { graceMs: olderThan * 1_000 };
    return printVerification(io, options, (tell) => verifyInstallation({ store, temporal: client, ...grace }, tell));
  });
}

/** Returns the exit code: 0 when nothing is violated. Violations are printed as they are found, for there may be very many. */
export async function printVerification(
  io: CliIo,
  options: VerifyOptions,
  check: (tell: Tell) => Promise<Verification>,
): Promise<number> {
  let count = 0;
  const { unchecked, turns, agents, stalled, stalls } = await check((found) => {
    if (options.json) printJson(io, found, count === 0);
    else printTable(io, found);
    count += found.length;
  });
  if (options.json) {
    const rest = JSON.stringify({ unchecked, turns, agents, stalled, stalls }).slice(1);
    io.out(count === 0 ? `{"violations":[],${rest}` : `],${rest}`);
  } else {
    for (const why of unchecked) io.err(`not checked: ${why}`);
    printStalls(io, stalled, stalls);
    io.out(
      `${counted(turns, 'turn')}, ${counted(agents, 'agent')}: ${count === 0 ? 'no violation' : counted(count, 'violation')}`,
    );
  }
  return count === 0 ? 0 : 1;
}

function printStalls(io: CliIo, stalled: number, stalls: readonly StalledTurn[]): void {
  const rows = stalls.map(({ agentId, agentTurnId, stall }) => [agentId, agentTurnId, stallText(stall)]);
  if (rows.length > 0) for (const line of table([['STALLED AGENT', 'TURN', 'WHY'], ...rows])) io.out(line);
  if (stalled > rows.length) io.out(`and ${stalled - rows.length} more that do not go on`);
}

/** Prints a page of violations as a part of the one JSON object. */
function printJson(io: CliIo, found: readonly Violation[], isFirst: boolean): void {
  io.out(`${isFirst ? '{"violations":[' : ','}${found.map((violation) => JSON.stringify(violation)).join(',\n')}`);
}

function printTable(io: CliIo, found: readonly Violation[]): void {
  const rows = found.map(({ check, agentId, agentTurnId, detail }) => [
    check,
    agentId ?? '-',
    agentTurnId ?? '-',
    detail,
  ]);
  for (const line of table([['VIOLATION', 'AGENT', 'TURN', 'WHAT'], ...rows])) io.out(line);
}
