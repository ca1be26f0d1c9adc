/** `verify`: whether this installation keeps the promise. */
import type { CliEnvironment, VerifyOptions } from './environment.ts';
import { table } from './format.ts';

/** Returns the exit code: 0 when nothing is violated. */
export async function verify({ io, verify: check }: CliEnvironment, options: VerifyOptions): Promise<number> {
  const { violations, unchecked, turns, agents } = await check(options);
  const among = `${turns} turns, ${agents} agents`;
  if (options.json) {
    io.out(JSON.stringify({ violations, unchecked, turns, agents }));
  } else {
    for (const why of unchecked) io.err(`not checked: ${why}`);
    const rows = violations.map((found) => [found.check, found.agentId ?? '-', found.agentTurnId ?? '-', found.detail]);
    if (rows.length > 0) for (const line of table([['VIOLATION', 'AGENT', 'TURN', 'WHAT'], ...rows])) io.out(line);
    io.out(violations.length === 0 ? `${among}: no violation` : `${among}: ${countOf(violations.length)}`);
  }
  return violations.length === 0 ? 0 : 1;
}

const countOf = (count: number): string => (count === 1 ? '1 violation' : `${count} violations`);
