/** Tools whose first attempt holds until it is let go, and that write down who did what: for tests that take their worker away meanwhile. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { Tool } from '../../activities/tool.ts';
import { askTool } from './asking.ts';

export interface Done {
  readonly pid: number;
  readonly tool: string;
  readonly callId: string;
  readonly phase: 'began' | 'ended';
}

const LOOK_EVERY_MS = 20;
const logOf = (dir: string): string => join(dir, 'done.jsonl');
const gateOf = (dir: string): string => join(dir, 'let-go');

export function holdingApp(dir: string): App {
  const hold = (name: string, sideEffects: 'idempotent' | 'unsafe'): Tool =>
    defineTool({
      name,
      description: 'holds',
      parameters: z.object({}),
      sideEffects,
      timeoutMs: 600_000,
      async execute(_, { callId, attempt }) {
        const note = (phase: Done['phase']) => {
          const done: Done = { pid: process.pid, tool: name, callId, phase };
          appendFileSync(logOf(dir), `${JSON.stringify(done)}\n`);
        };
        note('began');
        // It ignores its signal: a stale one must be kept from writing by others than itself.
        while (attempt === 1 && !existsSync(gateOf(dir))) await sleep(LOOK_EVERY_MS, undefined, { ref: false });
        note('ended');
        return { by: process.pid };
      },
    });
  /** Needs leave, and says what it did. */
  const spend = defineTool({
    name: 'spend',
    description: 'spends money',
    parameters: z.object({ amount: z.number() }),
    execute: ({ amount }, { callId }) => {
      const done: Done = { pid: process.pid, tool: `spend ${amount}`, callId, phase: 'ended' };
      appendFileSync(logOf(dir), `${JSON.stringify(done)}\n`);
      return { spent: amount };
    },
  });
  /** Says that it ran, and no more. */
  const counted = (name: string, sideEffects: 'none' | 'idempotent' | 'unsafe') =>
    defineTool({
      name,
      description: 'is counted',
      parameters: z.object({}),
      sideEffects,
      execute: (_, { callId }) => {
        const done: Done = { pid: process.pid, tool: name, callId, phase: 'ended' };
        appendFileSync(logOf(dir), `${JSON.stringify(done)}\n`);
        return { counted: true };
      },
    });
  /** What it does goes wrong where nobody catches it. */
  const faulty = (name: string, leaveBehind: () => unknown, result: () => Promise<string>): Tool =>
    defineTool({
      name,
      description: 'leaves a fault behind',
      parameters: z.object({}),
      execute: () => {
        leaveBehind();
        return result();
      },
    });
  const throwSoon = () =>
    setTimeout(() => {
      throw new Error('in a timer');
    }, 1);
  const rejectSoon = () => Promise.reject(new Error('nobody awaits this'));
  const rejectLater = () => sleep(200).then(() => rejectSoon());
  const deadline = (name: string, suspendTimeoutMs: number): Tool =>
    defineTool({ name, description: name, parameters: z.object({}), afterExecution: 'suspend', suspendTimeoutMs });
  const tools = [
    askTool,
    spend,
    counted('count', 'unsafe'),
    counted('count_again', 'idempotent'),
    counted('look', 'none'),
    faulty('reject', rejectSoon, async () => 'all is well'),
    faulty('throw_in_timer', throwSoon, () => new Promise(() => {})),
    faulty('reject_later', rejectLater, async () => 'all is well'),
    hold('hold', 'idempotent'),
    hold('hold_unsafe', 'unsafe'),
    deadline('ask_3_s', 3_000),
    deadline('ask_1_h', 3_600_000),
  ];
  return defineApp({
    agents: [
      defineAgent({
        name: 'tester',
        governance: { rules: [{ tool: 'spend', action: 'ask', reason: 'money' }] },
        delegationPolicy: { profiles: ['tester'] },
      }),
      defineAgent({ name: 'bursting', burst: true, timeouts: { heartbeatMs: 2_000 } }),
    ],
    tools,
  });
}

export const letGo = (dir: string): void => writeFileSync(gateOf(dir), '');

export function whatWasDone(dir: string): readonly Done[] {
  if (!existsSync(logOf(dir))) return [];
  const lines = readFileSync(logOf(dir), 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Done);
}
