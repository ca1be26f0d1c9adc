/** How much a turn of a chat may take. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { recentUnits, snippetResidency, withChatBounds } from '../../../workflows/chat/bounds.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import { previewTokens, snipTokens } from '../../../workflows/kernel/pressure.ts';
import { type ChatConfig, chatSchema } from '../../../workflows/protocol/chat.ts';
import { type Profile, profileSchema } from '../../../workflows/protocol/profile.ts';

const profileWith = (chat: Partial<ChatConfig>, more: object = {}): Profile =>
  profileSchema.parse({ name: 'friend', chat, ...more });

const unitsOf = (count: number): ContextUnit[] =>
  Array.from({ length: count }, (_, at) => ({
    boxId: 'b',
    fromSeq: at * 3 + 1,
    toSeq: at * 3 + 3,
    tokens: [9, 9, 9, 9],
  }));

describe('the bounds of a chat', () => {
  test('leave a profile as it is that sets none (C7)', () => {
    const profile = profileWith({ queuePolicy: 'steer', debounceMs: 100, maxRecentMessages: 4 });
    expect(withChatBounds(profile)).toBe(profile);
  });

  test.each([
    ['lower', { maxToolCalls: 50, turnMs: 90_000, windowTokens: 64_000 }, 3, 60_000, 8_000],
    ['higher', { maxToolCalls: 2, turnMs: 50_000, windowTokens: 4_000 }, 3, 60_000, 8_000],
  ])(
    'count where they are the lower ones, and those of the profile where they are the %s ones (C7)',
    (_, own, calls, ms, window) => {
      const bounded = withChatBounds(
        profileWith(
          { maxToolCallsPerTurn: calls, turnTimeoutMs: ms, maxContextTokens: window },
          {
            budgets: { maxToolCalls: own.maxToolCalls },
            timeouts: { turnMs: own.turnMs },
            context: { windowTokens: own.windowTokens },
          },
        ),
      );
      expect(bounded).toMatchObject({
        budgets: { maxToolCalls: Math.min(calls, own.maxToolCalls) },
        timeouts: { turnMs: Math.min(ms, own.turnMs) },
        context: { windowTokens: Math.min(window, own.windowTokens) },
      });
      expect(withChatBounds(bounded)).toBe(bounded);
    },
  );

  test('change nothing else of a profile, and are the same each time (C7)', () => {
    const profile = profileWith({ maxToolCallsPerTurn: 3 });
    const { budgets, ...rest } = withChatBounds(profile);
    const { budgets: own, ...same } = profile;
    expect(rest).toEqual(same);
    expect(budgets).toEqual({ ...own, maxToolCalls: 3 });
    expect(withChatBounds(profile)).toEqual(withChatBounds(profile));
  });
});

describe('the earlier turns that a chat remembers', () => {
  test.each([
    [undefined, 5, 5],
    [0, 5, 0],
    [1, 5, 0],
    [2, 5, 1],
    [5, 5, 2],
    [100, 5, 5],
    [4, 0, 0],
  ])('are with %s messages, of %i turns, the last %i (C7)', (maxRecentMessages, count, kept) => {
    const units = unitsOf(count);
    const recent = recentUnits(units, maxRecentMessages === undefined ? {} : { maxRecentMessages });
    expect(recent).toEqual(kept === 0 ? [] : units.slice(-kept));
  });

  test('are the latest, whole and in their order, and no more messages than it may have (C7)', () => {
    fc.assert(
      fc.property(fc.nat(50), fc.nat(60), (count, maxRecentMessages) => {
        const units = unitsOf(count);
        const recent = recentUnits(units, { maxRecentMessages });
        expect(recent).toEqual(units.slice(units.length - recent.length));
        expect(recent.length * 2).toBeLessThanOrEqual(maxRecentMessages);
        expect(recentUnits(units, { maxRecentMessages })).toEqual(recent);
      }),
    );
  });

  test('show results with no more tokens than a snippet may have (C7)', () => {
    const window = 32_000;
    const snip = snipTokens(window);
    const preview = previewTokens(snip);
    expect(snippetResidency({}, window)).toBeUndefined();
    expect(snippetResidency({ maxToolSnippetTokens: snip }, window)).toBe('snipped');
    expect(snippetResidency({ maxToolSnippetTokens: snip - 1 }, window)).toBe('preview');
    expect(snippetResidency({ maxToolSnippetTokens: preview - 1 }, window)).toBe('collapsed');
    expect(chatSchema.safeParse({ maxToolSnippetTokens: -1 }).success).toBe(false);
  });
});
