/**
 * The work every measurement does: an agent whose model calls one tool a given number of times, one call a step, and then answers.
 * The instruction says which tool and how often, so the model process needs no script per turn.
 */
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool } from '../activities/app/app.ts';
import { type ChatRequest, textOf } from '../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../workers/model-server/completion.ts';

export const PROFILE = 'bench';

/** Workflow and activities of the floor share it, as a turn and its activities share theirs. */
export const FLOOR_QUEUE = 'bench-floor';

/** Output of a call where the size of histories is measured. */
export const LARGE_OUTPUT = 10 * 1024;
/** Output of a call where time is measured: small, because a bare workflow carries it through its history and ours does not. */
export const SMALL_OUTPUT = 64;

export interface Work {
  readonly tool: 'produce' | 'linger' | 'ask' | 'ask_briefly';
  readonly calls: number;
  readonly bytes: number;
}

/** What is timed beside the bare workflow, which makes the same calls. */
export const COMPARED = {
  oneTool: { tool: 'produce', calls: 1, bytes: SMALL_OUTPUT },
  noTool: { tool: 'produce', calls: 0, bytes: 0 },
} as const satisfies Record<string, Work>;
export type Compared = keyof typeof COMPARED;
export const COMPARED_NAMES: readonly Compared[] = ['oneTool', 'noTool'];

export const instructionOf = ({ tool, calls, bytes }: Work): string => `[work ${tool} ${calls} ${bytes}] Do the work.`;

const MARKER = /\[work (\w+) (\d+) (\d+)\]/;

/** The next call until all are made, then the answer. Counts from the newest instruction on: an agent remembers its earlier turns. */
export function answerOf({ messages }: ChatRequest): ModelAnswer {
  const start = messages.findLastIndex((message) => message.role === 'user' && MARKER.test(textOf(message)));
  const instruction = messages[start];
  const [, name = '', calls, bytes] = MARKER.exec(instruction ? textOf(instruction) : '') ?? [];
  const made = messages.slice(start + 1).filter((message) => message.role === 'assistant').length;
  if (made >= Number(calls)) return { kind: 'message', content: 'The work is done.' };
  return { kind: 'message', toolCalls: [{ name, arguments: { index: made, bytes: Number(bytes) } }] };
}

const parameters = z.object({ index: z.int(), bytes: z.int() });

const produce = defineTool({
  name: 'produce',
  description: 'Produces a text of so many bytes.',
  parameters,
  sideEffects: 'none',
  execute: ({ index, bytes }) => ({ text: `${index} `.padEnd(bytes, 'x') }),
});

/** Longer than any measurement waits. */
const PATIENCE_MS = 24 * 3_600_000;

const ask = defineTool({
  name: 'ask',
  description: 'Asks somebody.',
  parameters,
  afterExecution: 'suspend',
  suspendTimeoutMs: PATIENCE_MS,
});

const askBriefly = defineTool({
  name: 'ask_briefly',
  description: 'Asks somebody who will not answer.',
  parameters,
  afterExecution: 'suspend',
  suspendTimeoutMs: 1_000,
});

const LINGER_MS = 300;

/** May act once for a call, and notes in a file that it did. */
const linger = (effectsPath: string) =>
  defineTool({
    name: 'linger',
    description: 'Takes its time.',
    parameters,
    sideEffects: 'unsafe',
    async execute(_, { callId }) {
      appendFileSync(effectsPath, `${callId}\n`);
      await sleep(LINGER_MS);
      return 'done';
    },
  });

/** `effectsPath`: the file in which `linger` notes each call. */
export const benchApp = (effectsPath = '/dev/null'): App =>
  defineApp({
    agents: [defineAgent({ name: PROFILE, budgets: { maxSteps: 1_000, maxTokens: Number.MAX_SAFE_INTEGER } })],
    tools: [produce, linger(effectsPath), ask, askBriefly],
  });
