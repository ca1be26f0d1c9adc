/** The calls of one step: those that run, side by side, those that are refused, and those that need approval. */

import { storeActivities, toolActivities } from '../contract/activities.ts';
import type { Until } from '../contract/suspension.ts';
import type { ApprovalAsk, ExecuteToolsAction, RefusedCall } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/state.ts';
import type { TurnSnapshot } from '../messages/messages.ts';
import type { Fence } from '../protocol/turn.ts';
import type { TurnDisplay } from './display.ts';

/** As it is shown, and how long it waits. */
export type WaitingCall = TurnSnapshot['waiting'][number] & Until;

export interface CallOutcomes {
  readonly settled: readonly SettledCall[];
  readonly waiting: readonly WaitingCall[];
}

export class TurnCalls {
  readonly #fence: Fence;
  readonly #profileHash: string;
  readonly #display: TurnDisplay;
  readonly #count: () => void;

  /** `count` is called for each billable action. */
  constructor(fence: Fence, profileHash: string, display: TurnDisplay, count: () => void) {
    this.#fence = fence;
    this.#profileHash = profileHash;
    this.#display = display;
    this.#count = count;
  }

  async execute(action: ExecuteToolsAction): Promise<CallOutcomes> {
    const { refuse = [], ask = [] } = action;
    const [refused, asked, ran] = await Promise.all([this.#refuse(refuse), this.#ask(ask), this.#run(action)]);
    const settled = ran.flatMap(({ outcome }) => (outcome.kind === 'settled' ? [outcome.settled] : []));
    const suspended = ran.flatMap(({ callId, tool, outcome }) =>
      outcome.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline, leftMs: outcome.leftMs }] : [],
    );
    return { settled: [...settled, ...refused], waiting: [...suspended, ...asked] };
  }

  async #refuse(refusals: readonly RefusedCall[]): Promise<readonly SettledCall[]> {
    if (refusals.length === 0) return [];
    this.#count();
    const settled = await storeActivities.refuseCalls({ ...this.#fence, refusals });
    for (const call of settled) this.#display.call(call.callId, call.errorCode ?? call.status, null);
    return settled;
  }

  async #ask(asks: readonly ApprovalAsk[]): Promise<readonly WaitingCall[]> {
    if (asks.length === 0) return [];
    this.#count();
    const requests = asks.map((ask) => ({ ...ask, kind: 'call' as const }));
    const asked = await storeActivities.askApprovals({ ...this.#fence, requests });
    const tools = new Map(asks.map(({ callId, tool }) => [callId, tool]));
    return asked.map((asked) => {
      this.#display.call(asked.callId, 'waits for approval', null);
      return { ...asked, tool: tools.get(asked.callId) ?? '' };
    });
  }

  #run({ calls, stepIndex }: ExecuteToolsAction) {
    return Promise.all(
      calls.map(async ({ callId, tool }) => {
        const startedAt = Date.now();
        const { runTool } = toolActivities(`step ${stepIndex}: ${tool}`);
        this.#count();
        const outcome = await runTool({ ...this.#fence, profileHash: this.#profileHash, callId, tool });
        const status = outcome.kind === 'settled' ? outcome.settled.status : 'waiting';
        this.#display.call(callId, status, Date.now() - startedAt);
        return { callId, tool, outcome };
      }),
    );
  }
}
