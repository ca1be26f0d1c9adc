/** The store's transactions as activities, and the parsing of what foreign clients sent inline. */
import { log } from '@temporalio/activity';
import { z } from 'zod';
import type { InlineMessage, ReportInlineInput, StoreActivities } from '../workflows/ports.ts';
import { isDelegation } from '../workflows/protocol/builtins.ts';
import { enqueueRequestSchema } from '../workflows/protocol/enqueue.ts';
import type { JsonObject } from '../workflows/protocol/json.ts';
import { clip } from '../workflows/protocol/limits.ts';
import type { Store } from '../workflows/protocol/store.ts';
import { toolResultReportSchema } from '../workflows/protocol/tool-result.ts';
import type { App } from './app.ts';
import { canonicalDigest } from './canonical.ts';
import { turnIdForMessage } from './store/ids.ts';
import { parseDelegation } from './tools/delegation.ts';
import { type TurnWorkflows, tryHandOver } from './turn-workflows.ts';

const parseArguments = (app: App, tool: string, args: JsonObject): JsonObject =>
  isDelegation(tool) ? parseDelegation(tool, args) : (app.tools.get(tool)?.parse(args) ?? args);

/** A text may be what stands for a body that could not be read, and says why. */
const saying = (body: unknown): string => (typeof body === 'string' ? `; it says: ${clip(body, 200)}` : '');

export interface StoreActivityDeps {
  readonly store: Store;
  readonly app: App;
  readonly workflows: TurnWorkflows;
}

export const storeActivities = ({ store, app, workflows }: StoreActivityDeps): StoreActivities => ({
  async acceptInline({ agentId, requests }) {
    const accepted: boolean[] = [];
    for (const request of requests) accepted.push(await isAccepted({ store, workflows }, agentId, request));
    return accepted;
  },

  async reportInline({ results, ...turn }) {
    for (const result of results) await reportResult(store, turn, result);
  },

  refuseCalls: ({ refusals, ...fence }) => store.refuseCalls(fence, refusals),

  askApprovals: ({ requests, ...fence }) => store.askApprovals(fence, requests),

  readLimits: (fence) => store.readLimits(fence),

  resolveWaiting: ({ callIds, nowMs, ...fence }) =>
    store.resolveWaiting(fence, callIds, nowMs, (tool, args) => parseArguments(app, tool, args)),

  async commitTurn({ agentId, agentTurnId, turnEpoch, ...commit }) {
    const { ended, handover } = await store.commitTurn({ agentId, agentTurnId, turnEpoch }, commit);
    await tryHandOver(workflows, handover);
    return ended;
  },
});

/** Otherwise an event says why not. */
async function isAccepted(
  { store, workflows }: Omit<StoreActivityDeps, 'app'>,
  agentId: string,
  { messageId, body }: InlineMessage,
): Promise<boolean> {
  const agentTurnId = turnIdForMessage(messageId, canonicalDigest(body));
  const parsed = enqueueRequestSchema.safeParse(body);
  if (!parsed.success) {
    const reason = `enqueue signal dropped: ${z.prettifyError(parsed.error)}${saying(body)}`;
    log.warn(reason, { agentId });
    await store.recordDropped(agentId, messageId, { what: 'enqueue', reason });
    return false;
  }
  const outcome = await store.accept({ agentId, agentTurnId, request: parsed.data });
  if (outcome.kind === 'accepted') {
    await tryHandOver(workflows, { agentId, next: outcome.lease, more: false, reports: [] });
    return true;
  }
  await store.recordDropped(agentId, messageId, { what: 'enqueue', reason: `${outcome.code}: ${outcome.message}` });
  return false;
}

async function reportResult(
  store: Store,
  { agentId, agentTurnId }: Omit<ReportInlineInput, 'results'>,
  { messageId, body }: InlineMessage,
): Promise<void> {
  const parsed = toolResultReportSchema.safeParse(normalised(body));
  if (!parsed.success) {
    const reason = `tool_result signal dropped: ${z.prettifyError(parsed.error)}${saying(body)}`;
    log.warn(reason, { agentId, agentTurnId });
    return store.recordDropped(agentId, messageId, { what: 'tool_result', reason });
  }
  const { ack } = await store.reportResult(agentTurnId, parsed.data);
  log.info('tool_result signal', { agentTurnId, callId: parsed.data.callId, ack });
}

/**
 * A result of an unknown status, or a success with an error, is a failed result of the call it names: its sender gets no answer, and the
 * call would wait for its deadline (T20). What is malformed otherwise may be meant for something else, and is dropped.
 */
function normalised(body: unknown): unknown {
  const { error } = toolResultReportSchema.safeParse(body);
  const named = namedCall.safeParse(body);
  if (!error || !named.success || !error.issues.every(({ path }) => path[0] === 'status' || path[0] === 'error'))
    return body;
  const message = `the result that was reported is malformed: ${z.prettifyError(error)}`;
  return { ...named.data, status: 'failed', error: { code: 'invalid_result', message, kind: 'recoverable' } };
}

const namedCall = z.object({ callId: z.string().min(1).max(128), turnEpoch: z.int().positive().optional() });
