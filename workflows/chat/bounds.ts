/** How much one turn of a chat may take, by what its profile says of chats (C7). Pure. */
import type { ContextUnit } from '../kernel/context.ts';
import { previewTokens, type Residency, snipTokens } from '../kernel/pressure.ts';
import type { ChatConfig } from '../protocol/chat.ts';
import type { Profile } from '../protocol/profile.ts';

/** The profile as turns of chats have it: with the lower of each two bounds. The profile itself where its chats have no bounds of their own. */
export function withChatBounds(profile: Profile): Profile {
  const { maxToolCallsPerTurn, turnTimeoutMs, maxContextTokens } = profile.chat;
  const { budgets, timeouts, context } = profile;
  const maxToolCalls = lower(budgets.maxToolCalls, maxToolCallsPerTurn);
  const turnMs = lower(timeouts.turnMs, turnTimeoutMs);
  const windowTokens = lower(context.windowTokens, maxContextTokens);
  if (maxToolCalls === budgets.maxToolCalls && turnMs === timeouts.turnMs && windowTokens === context.windowTokens)
    return profile;
  return {
    ...profile,
    budgets: { ...budgets, maxToolCalls },
    timeouts: { ...timeouts, ...(turnMs === undefined ? {} : { turnMs }) },
    context: { ...context, windowTokens },
  };
}

function lower(a: number, b: number | undefined): number;
function lower(a: number | undefined, b: number | undefined): number | undefined;
function lower(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

/** What a turn has at least: a request, and what was delivered. */
const MESSAGES_OF_A_TURN = 2;

/** Of earlier turns, the latest ones that are remembered; the oldest go first, and a turn goes whole. */
export function recentUnits(
  units: readonly ContextUnit[],
  { maxRecentMessages }: Pick<ChatConfig, 'maxRecentMessages'>,
): readonly ContextUnit[] {
  if (maxRecentMessages === undefined) return units;
  const turns = Math.floor(maxRecentMessages / MESSAGES_OF_A_TURN);
  return turns === 0 ? [] : units.slice(-turns);
}

/** How results of earlier turns are shown from the beginning, so that none has more tokens; undefined where the window decides alone. */
export function snippetResidency(
  { maxToolSnippetTokens }: Pick<ChatConfig, 'maxToolSnippetTokens'>,
  windowTokens: number,
): Exclude<Residency, 'full'> | undefined {
  if (maxToolSnippetTokens === undefined) return undefined;
  const snip = snipTokens(windowTokens);
  if (maxToolSnippetTokens >= snip) return 'snipped';
  return maxToolSnippetTokens >= previewTokens(snip) ? 'preview' : 'collapsed';
}
