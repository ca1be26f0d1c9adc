/** The calls of one step: those that run, side by side, those that are refused, and those that need approval. */
import type { Until } from '../contract/suspension.ts';
import type { ApprovalAsk, ExecuteToolsAction, RefusedCall } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/calls.ts';
import { waitingCalls } from '../kernel/phase.ts';
import type { TurnSnapshot } from '../messages/messages.ts';
import { inLanes } from './lanes.ts';
import type { TurnParts } from './parts.ts';

type ShownWait = TurnSnapshot['waiting'][number];

/** What became of the calls of an action. */
export interface CallOutcomes {
  readonly settled: readonly SettledCall[];
  /** Calls of the action that wait now: how they are shown, and for how long they wait. */
  readonly waiting: readonly (ShownWait & Until)[];
  /** Calls of the step that waited before the action and go on waiting. */
  readonly waitingBefore: readonly ShownWait[];
}

/** Runs, refuses and asks about the calls of an action side by side, `again` where a lost attempt may have started them; tells which have results and which wait. */
export async function executeCalls(turn: TurnParts, action: ExecuteToolsAction, again: boolean): Promise<CallOutcomes> {
  const { refuse = [], ask = [] } = action;
  const waitingBefore = waitingElsewhere(turn, action);
  const [refused, asked, ran] = await Promise.all([
    refuseCalls(turn, refuse),
    askFor(turn, ask),
    run(turn, action, again),
  ]);
  const settled = ran.flatMap(({ outcome }) => (outcome.kind === 'settled' ? [outcome.settled] : []));
  const suspended = ran.flatMap(({ callId, tool, outcome }) =>
    outcome.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline, leftMs: outcome.leftMs }] : [],
  );
  return { settled: [...settled, ...refused], waiting: [...suspended, ...asked], waitingBefore };
}

/** Calls of the step that waited before the action and go on waiting. */
export function waitingElsewhere(
  { kernel }: TurnParts,
  { calls, refuse = [], ask = [] }: ExecuteToolsAction,
): readonly ShownWait[] {
  const acted = new Set([...calls, ...refuse, ...ask].map((call) => call.callId));
  return waitingCalls(kernel.state)
    .filter(({ callId }) => !acted.has(callId))
    .map(({ callId, tool, deadline }) => ({ callId, tool, deadline }));
}

async function refuseCalls(
  { fence, meter, display }: TurnParts,
  refusals: readonly RefusedCall[],
): Promise<readonly SettledCall[]> {
  if (refusals.length === 0) return [];
  const settled = await meter.store.refuseCalls({ ...fence, refusals });
  for (const call of settled) display.call(call.callId, call.errorCode ?? call.status, null);
  return settled;
}

async function askFor(
  { fence, meter, display }: TurnParts,
  asks: readonly ApprovalAsk[],
): Promise<CallOutcomes['waiting']> {
  if (asks.length === 0) return [];
  const requests = asks.map((ask) => ({ ...ask, kind: 'call' as const }));
  const suspensions = await meter.store.askApprovals({ ...fence, requests });
  for (const { callId, reason } of asks) display.asked(callId, { kind: 'approval', reason });
  const tools = new Map(asks.map(({ callId, tool }) => [callId, tool]));
  return suspensions.map((asked) => ({ ...asked, tool: tools.get(asked.callId) ?? '' }));
}

const run = ({ fence, meter, display, lease }: TurnParts, { calls, stepIndex }: ExecuteToolsAction, again: boolean) =>
  inLanes(calls, lease.parallelCalls ?? calls.length, async ({ callId, tool }) => {
    const startedAt = Date.now();
    const { runTool } = meter.tool(`step ${stepIndex}: ${tool}`);
    const outcome = await runTool({
      ...fence,
      profileHash: lease.profileHash,
      callId,
      tool,
      ...(again ? { again } : {}),
    });
    const status = outcome.kind === 'settled' ? outcome.settled.status : 'waiting';
    display.call(callId, status, Date.now() - startedAt);
    return { callId, tool, outcome };
  });
