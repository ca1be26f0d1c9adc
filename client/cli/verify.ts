/** `verify`: whether this installation keeps the promise. */
import type { Violation } from '../../workflows/contract/views.ts';
import type { CliEnvironment, CliIo, VerifyOptions } from './environment.ts';
import { table } from './format.ts';

/** Returns the exit code: 0 when nothing is violated. What is found is printed as it is found: there may be very much of it. */
export async function verify({ io, verify: check }: CliEnvironment, options: VerifyOptions): Promise<number> {
  let count = 0;
  const { unchecked, turns, agents } = await check(options, (found) => {
    if (options.json) printJson(io, found, count === 0);
    else printTable(io, found);
    count += found.length;
  });
  if (options.json) {
    const rest = JSON.stringify({ unchecked, turns, agents }).slice(1);
    io.out(count === 0 ? `{"violations":[],${rest}` : `],${rest}`);
  } else {
    for (const why of unchecked) io.err(`not checked: ${why}`);
    io.out(`${turns} turns, ${agents} agents: ${count === 0 ? 'no violation' : countOf(count)}`);
  }
  return count === 0 ? 0 : 1;
}

/** A part of the one object. */
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

const countOf = (count: number): string => (count === 1 ? '1 violation' : `${count} violations`);
