/** `inbox`: all that waits for somebody outside, each with the commands that answer it. */
import type { InboxEntry, InboxPlace } from '../../workflows/contract/lists.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { answerCommands } from './answers.ts';
import { type CliEnvironment, PAGE, type PageOptions, tellMore } from './environment.ts';
import { counted, duration, shortened, time } from './format.ts';

const ARGUMENTS_SHOWN = 400;

/** The options of `inbox`. */
export interface InboxOptions extends PageOptions {
  readonly agent?: string;
}

/** `inbox`: a page of what waits. Resolves with the exit code. Errors: `invalid_request` for a malformed place. */
export async function printInbox({ io, openStore }: CliEnvironment, options: InboxOptions): Promise<number> {
  const { agent, after, limit = PAGE, json, ...more } = options;
  const store = await openStore(more);
  try {
    const found = await store.listInbox({
      ...(agent === undefined ? {} : { agentId: agent }),
      ...(after === undefined ? {} : { after: placeOf(after) }),
      limit: limit + 1,
    });
    const entries = found.slice(0, limit);
    const last = entries.at(-1);
    const next = last && found.length > limit ? `${last.createdAt}:${last.agentTurnId}:${last.callId}` : null;
    if (json) io.out(JSON.stringify({ items: entries, next }));
    else if (entries.length === 0) io.out(after === undefined ? 'nothing waits for an answer' : 'no more');
    else for (const line of entries.flatMap((entry) => entryLines(entry, Date.now()))) io.out(line);
    if (!json) tellMore(io, `inbox${agent === undefined ? '' : ` --agent ${agent}`} --limit ${limit}`, next);
    return 0;
  } finally {
    await store.close();
  }
}

/** The place that `--after` names. Errors: `invalid_request`. */
export function placeOf(text: string): InboxPlace {
  const [, createdAt, agentTurnId, callId] = /^(\d+):([^:]+):(.+)$/.exec(text) ?? [];
  if (createdAt !== undefined && agentTurnId !== undefined && callId !== undefined)
    return { createdAt: Number(createdAt), agentTurnId, callId };
  throw new CodedError('invalid_request', '--after takes what the page before told, TIME:TURN:CALL');
}

const WHAT = {
  approval: 'may this call run?',
  budget: 'may it go on with a larger budget?',
  result: 'waits for its result',
} as const;

function entryLines(entry: InboxEntry, now: number): string[] {
  const { kind, callId, agentId, agentTurnId, tool, reason, approvers, deadline, queuedBehind, createdAt } = entry;
  const what = tool === '' ? WHAT[kind] : `${tool} ${shortened(JSON.stringify(entry.arguments), ARGUMENTS_SHOWN)}`;
  const who = approvers.length > 0 ? `${approvers.join(' or ')} may answer` : 'anybody may answer';
  const behind = queuedBehind === 0 ? '' : `; it holds up ${counted(queuedBehind, 'queued turn')}`;
  return [
    `${callId}  ${what}`,
    `    ${tool === '' ? '' : `${WHAT[kind]} `}${reason ?? ''}`.trimEnd(),
    `    agent ${agentId}, turn ${agentTurnId}; for ${duration(Math.max(0, now - createdAt))}${behind}`,
    `    ${who} until ${time(deadline)}:`,
    ...answerCommands(entry).map((command) => `      ${command}`),
    '',
  ];
}
