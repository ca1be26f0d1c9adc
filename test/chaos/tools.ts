/**
 * The app of a chaos run. Every tool that does something writes it down first, one line per effect, so that the run can count how
 * often the world was changed.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool, type ToolDefinition } from '../../activities/app/app.ts';
import type { Tool } from '../../activities/tool.ts';
import { AGENT_STATE_TOOLS } from '../../activities/tools/builtin/registry.ts';
import { ASK_EXPERT, DELEGATE_ASYNC } from '../../workflows/protocol/builtins.ts';
import { LIVING_PROFILE } from './living-model.ts';
import { ALL_TRAITS, delegatedProfile, profileNamed, type ToolName, type Traits, UNCOUNTED_MODEL } from './work.ts';

export interface Effect {
  readonly callId: string;
  readonly attempt: number;
  readonly tool: string;
}

/** Nobody answers this one. */
const NOBODY_MS = 2_000;
/** Longer than a run may take to drain: a turn that does not notice its answer is found open at the end. */
const ANSWER_MS = 60 * 60_000;

export const UNSAFE: ReadonlySet<string> = new Set<ToolName>([
  'charge',
  'slow',
  'fail',
  'finish',
  'ask',
  'ask_nobody',
  'hold',
  'gated',
]);

export const SUSPENDING: ReadonlySet<string> = new Set<ToolName>(['ask', 'ask_nobody', 'hold']);

/** Some questions nobody answers in that time. */
const LEAVE_MS = 10_000;

/** A window of that many tokens holds a few results of this size. */
const WINDOW = 4_000;
/** All that a model may say in four answers, and more. */
const WIDE_WINDOW = 1_000_000;
/** A turn of a few steps is longer. */
const SHORT_RUN_EVENTS = 30;
const BULK = 'all is well in this part of it. '.repeat(60);

/** Loose, so that what a hostile model adds is kept. */
const parameters = z.looseObject({ index: z.int(), step: z.int(), ms: z.int() });

/** Watchdogs that a backlog of a minute outlasts. */
const HASTY_MS = 45_000;

type Options = Partial<Pick<ToolDefinition, 'sideEffects' | 'afterExecution' | 'suspendTimeoutMs'>>;

export function chaosApp(effectsPath: string): App {
  const tool = (name: ToolName, options: Options, after?: () => Promise<never>): Tool =>
    defineTool({
      name,
      description: `does ${name}`,
      parameters,
      ...options,
      async execute({ ms }, { callId, attempt, signal }) {
        const effect: Effect = { callId, attempt, tool: name };
        appendFileSync(effectsPath, `${JSON.stringify(effect)}\n`);
        if (ms > 0) await sleep(ms, undefined, { signal });
        await after?.();
        return name === 'bulk' ? BULK : { done: name };
      },
    });
  return defineApp({
    agents: [
      ...ALL_TRAITS.map(chaosAgent),
      defineAgent({ name: LIVING_PROFILE, builtins: [...AGENT_STATE_TOOLS], maxAutonomousTurns: 10 }),
    ],
    tools: [
      tool('note', { sideEffects: 'none' }),
      tool('charge', { sideEffects: 'unsafe' }),
      tool('slow', { sideEffects: 'unsafe' }),
      tool('slow_safe', { sideEffects: 'idempotent' }),
      tool('fail', { sideEffects: 'unsafe' }, () => Promise.reject(new Error('it fails, as planned'))),
      tool('gated', { sideEffects: 'unsafe' }),
      tool('bulk', { sideEffects: 'none' }),
      tool('finish', { sideEffects: 'unsafe', afterExecution: 'terminate' }),
      tool('ask', { sideEffects: 'unsafe', afterExecution: 'suspend', suspendTimeoutMs: ANSWER_MS }),
      tool('ask_nobody', { sideEffects: 'unsafe', afterExecution: 'suspend', suspendTimeoutMs: NOBODY_MS }),
      tool('hold', { sideEffects: 'unsafe', afterExecution: 'suspend', suspendTimeoutMs: ANSWER_MS }),
    ],
  });
}

const chaosAgent = (traits: Traits) => {
  const { small, wide, short, uncounted, hasty, single } = traits;
  return defineAgent({
    name: profileNamed(traits),
    ...(uncounted ? { model: { name: UNCOUNTED_MODEL } } : {}),
    ...(hasty ? { timeouts: { dispatchMs: HASTY_MS, noProgressMs: HASTY_MS } } : {}),
    ...(small ? { context: { windowTokens: WINDOW } } : {}),
    ...(wide ? { context: { windowTokens: WIDE_WINDOW } } : {}),
    ...(single ? { burst: false } : {}),
    ...(short ? { maxHistoryEvents: SHORT_RUN_EVENTS } : {}),
    budgets: { maxTokens: Number.MAX_SAFE_INTEGER },
    delegationPolicy: { profiles: [delegatedProfile(ASK_EXPERT), delegatedProfile(DELEGATE_ASYNC)] },
    governance: { rules: [{ tool: 'gated', action: 'ask' }], approvals: { deadlineMs: LEAVE_MS } },
  });
};

/** What the tools did; a last line that its worker did not finish writing counts as well. */
export function readEffects(effectsPath: string): { readonly effects: readonly Effect[]; readonly torn: number } {
  const lines = readFileSync(effectsPath, 'utf8').split('\n').filter(Boolean);
  const effects: Effect[] = [];
  for (const line of lines) {
    try {
      effects.push(JSON.parse(line) as Effect);
    } catch {
      // A write cut off by a kill; what it was about cannot be said.
    }
  }
  return { effects, torn: lines.length - effects.length };
}
