/** The workflow's half of a burst: its kernel comes to where the kernel of the burst was, and tells the store of what the burst did not (K22). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { BurstInput, BurstItem, BurstOutcome } from '../../../workflows/contract/burst.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type { StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import type { KernelEvent, LlmResponseEvent } from '../../../workflows/kernel/events.ts';
import { mismatch } from '../../../workflows/kernel/legality.ts';
import { initialState, type KernelConfig, type KernelState } from '../../../workflows/kernel/state.ts';
import { afterBurst, runBurst } from '../../../workflows/turn/burst.ts';
import { TurnKernel } from '../../../workflows/turn/kernel.ts';
import type { TurnParts } from '../../../workflows/turn/parts.ts';
import { configs, type Die, dice, Walk } from '../kernel/walk.ts';

const SILENT = { observed() {}, notice() {} };
const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** The parts of a turn whose bursts end as told; they cross to the activity and back as JSON. */
function turnOf(kernel: TurnKernel, runSteps: (input: BurstInput) => BurstOutcome): TurnParts {
  const parts = {
    kernel,
    lease: { profileHash: 'hash' },
    fence: { agentId: 'agent', agentTurnId: 'turn', turnEpoch: 1 },
    inbox: { mark: {}, noteRead() {} },
    meter: {
      burst: () => ({ runSteps: async (input: BurstInput) => throughJson(runSteps(throughJson(input))) }),
      usageAfterBurst: { historyEvents: 1, historyBytes: 1, actions: 1 },
    },
    display: { thought() {}, call() {} },
  };
  return parts as unknown as TurnParts;
}

/** What the store would have recorded of the answer. */
function recordOf(event: LlmResponseEvent): StepOutcomeRecord {
  const { stepIndex, thoughtCardId, hasText, refused, truncated, calls, usage, cost = null, nowMs } = event;
  const seqOf = (role: string) => event.handles.find((handle) => handle[1] === role);
  const [thoughtSeq = 0, , thoughtTokens = 0] = seqOf('assistant') ?? [];
  const common = { stepIndex, thoughtCardId, thoughtSeq, thoughtTokens, noteSeq: null, noteTokens: 0, steers: [] };
  const answer = { hasText, refused, calls, usage, cost, latencyMs: 1, answeredAt: nowMs };
  return { ...common, ...answer, ...(truncated ? { truncated } : {}) };
}

/** The event as an item of a burst; null for one that no burst brings. */
function itemOf(event: KernelEvent): BurstItem | null {
  const { nowMs } = event;
  switch (event.type) {
    case 'llm_response':
      return { kind: 'step', nowMs, record: recordOf(event) };
    case 'tool_results':
      return event.suspended.length === 0 ? { kind: 'event', event } : null;
    case 'summarized':
    case 'llm_failed':
      return { kind: 'event', event };
    case 'budgets':
      return { kind: 'inbox', nowMs, delivery: { items: [{ kind: 'budgets', seq: 1, budgets: event.budgets }] } };
    case 'delegated':
      return { kind: 'inbox', nowMs, delivery: { delegated: event.delegated } };
    default:
      return null;
  }
}

const isOfBurst = (action: KernelAction): action is BurstInput['action'] =>
  action.type !== 'await' && action.type !== 'done';

/** A part of a walk that a burst could have performed. */
interface Stretch {
  readonly from: KernelState;
  readonly noticed: readonly Notice[];
  readonly action: BurstInput['action'];
  readonly items: BurstItem[];
  /** The state, the action and all notices that came of it. */
  to: KernelState;
  next: KernelAction;
  notices: readonly Notice[];
}

/** Tells the kernel of an event; null when nothing follows from it at once. */
function tell(kernel: TurnKernel, event: KernelEvent): KernelAction | null {
  const item = itemOf(event);
  if (item?.kind !== 'inbox') return kernel.feed(event);
  kernel.take(item.delivery, item.nowMs);
  return null;
}

/** The stretches of a walk, each as long as can be. */
function stretches(config: KernelConfig, rolls: readonly Die[]): readonly Stretch[] {
  const found: Stretch[] = [];
  const way = new Walk();
  const kernel = new TurnKernel({ state: initialState(config), noticed: [] }, SILENT);
  let action: KernelAction | null = null;
  let open: Stretch | null = null;
  for (const roll of rolls) {
    const event = way.event(kernel.state, roll);
    if (mismatch(kernel.state, event) !== null) continue;
    const { state: from, noticed } = kernel.moment;
    const item = itemOf(event);
    const next: KernelAction | null = tell(kernel, event) ?? action;
    if (!item || !action || !next || !isOfBurst(action)) open = null;
    else {
      open ??= { from, noticed, action, items: [], to: from, next: action, notices: noticed };
      if (open.items.length === 0) found.push(open);
      open.items.push(item);
      open.next = next;
      open.to = kernel.state;
      open.notices = kernel.moment.noticed;
    }
    action = next;
    if (next?.type === 'done') break;
  }
  return found;
}

describe('what a burst brings', () => {
  const seen = { stretches: 0, items: 0, longest: 0, notices: 0 };

  test('leads the kernel of the workflow to the state, the action and the notices of the burst, over random walks (K22)', async () => {
    const property = fc.asyncProperty(configs, dice, fc.nat(3), async (config, rolls, told) => {
      for (const { from, noticed, action, items, to, next, notices } of stretches(config, rolls)) {
        const untold = Math.max(0, notices.length - told);
        const kernel = new TurnKernel({ state: throughJson(from), noticed }, SILENT);
        const turn = turnOf(kernel, () => ({ items, untold }));
        const after = afterBurst(turn, action, await runBurst(turn, action));
        expect(kernel.state).toEqual(to);
        expect(after.next).toEqual(next);
        expect(kernel.moment.noticed).toEqual(notices.slice(notices.length - untold));
        seen.stretches += 1;
        seen.items += items.length;
        seen.longest = Math.max(seen.longest, items.length);
        seen.notices += untold;
      }
    });
    await fc.assert(property, { numRuns: 1_000 });
    expect(seen.stretches).toBeGreaterThan(1_000);
    expect(seen.longest).toBeGreaterThan(6);
    expect(seen.notices).toBeGreaterThan(100);
  });

  const notice: Notice = { type: 'repeating', tool: 'look', times: 3 };
  const action = { type: 'execute_tools', stepIndex: 1, calls: [{ callId: 'c', tool: 'ask' }] } as const;
  const state = () => initialState(CONFIG);
  const CONFIG = fc.sample(configs, { numRuns: 1, seed: 1 })[0] as KernelConfig;

  test('leaves the notices to the workflow that it began with and did not tell of', async () => {
    const kernel = new TurnKernel({ state: state(), noticed: [notice] }, SILENT);
    const waiting = [{ callId: 'c', tool: 'ask', deadline: 9, leftMs: 9 }];
    await runBurst(
      turnOf(kernel, () => ({ items: [], untold: 1, suspended: { settled: [], waiting } })),
      action,
    );
    expect(kernel.moment.noticed).toEqual([notice]);
  });

  test('ends the turn where all it knows is the recorded end (T29)', async () => {
    const kernel = new TurnKernel({ state: state(), noticed: [] }, SILENT);
    const end = { agentTurnId: 'turn', status: 'success', errorCode: null, reason: null } as const;
    const recorded = { ...end, deliverableCardId: 'card', outputBoxId: 'box' };
    const after = await runBurst(
      turnOf(kernel, () => ({ items: [], untold: 0, end: recorded })),
      action,
    );
    expect(after.end).toEqual(recorded);
  });
});
