/** The store's transactions as activities, and the parsing of what foreign clients sent inline. */

import { log } from '@temporalio/activity';
import { z } from 'zod';
import type {
  CommitTurnInput,
  InlineMessage,
  ReportInlineInput,
  StoreActivities,
} from '../workflows/contract/activities.ts';
import type { ApprovalStore, EditedCall, RecordedAnswer } from '../workflows/contract/approvals.ts';
import type { CallStore } from '../workflows/contract/calls.ts';
import type { InboxItem } from '../workflows/contract/inbox.ts';
import type { SessionJournal } from '../workflows/contract/journal.ts';
import type { Ending, LeaseStore, TurnEnd } from '../workflows/contract/lease.ts';
import type { StepStore } from '../workflows/contract/steps.ts';
import type { ApprovalDecision } from '../workflows/kernel/events.ts';
import { type ArgumentFacts, factsAt } from '../workflows/kernel/governance.ts';
import { enqueueRequestSchema } from '../workflows/protocol/enqueue.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { clip } from '../workflows/protocol/sizes.ts';
import { toolResultReportSchema } from '../workflows/protocol/tool-result.ts';
import type { App } from './app/app.ts';
import { canonicalDigest } from './canonical.ts';
import { isRetried, toApplicationFailure } from './failure.ts';
import { turnIdForMessage } from './ids.ts';
import { parseArguments } from './tools/builtin/registry.ts';
import { type HandoverExecutor, tryHandOver } from './turn-workflows.ts';

const withFacts = (app: App, item: InboxItem<RecordedAnswer>): InboxItem =>
  item.kind === 'answer' ? { ...item, answer: decisionOf(app, item.answer) } : item;

const decisionOf = (app: App, { edited, ...answer }: RecordedAnswer): ApprovalDecision =>
  edited ? { ...answer, edited: { facts: factsOf(app, edited) } } : answer;

/**
 * The rules judge what the tool would get. Arguments that do not match its schema are judged as written: the tool never runs with them
 * (K7).
 */
function factsOf(app: App, { tool, arguments: written, governance }: EditedCall): ArgumentFacts {
  try {
    return factsAt(governance, tool, parseArguments(app.tools, tool, written));
  } catch {
    return factsAt(governance, tool, written);
  }
}

/** What a body says that is only a text: it may stand for a payload that could not be read, and then it says why. */
const saying = (body: unknown): string => (typeof body === 'string' ? `; it says: ${clip(body, 200)}` : '');

/** What the local activities need from the process that runs them. */
export interface StoreActivityDeps {
  readonly store: LeaseStore & StepStore & CallStore & ApprovalStore;
  readonly app: App;
  readonly workflows: HandoverExecutor;
  /** Keeps journals of chat sessions; none are kept when absent. */
  readonly journal?: SessionJournal | undefined;
}

/** The local activities of the workflows. Each is one transaction of the store, or one for each message of a foreign client. */
export const createStoreActivities = ({ store, app, workflows, journal }: StoreActivityDeps): StoreActivities => ({
  async acceptInline({ agentId, requests }) {
    const drop = (messageId: string, reason: string) =>
      store.recordDropped(agentId, messageId, { what: 'enqueue', reason });
    return inOrder(requests, (request) => isAccepted({ store, workflows }, agentId, request), drop);
  },

  async reportInline({ results, ...turn }) {
    const drop = (messageId: string, reason: string) =>
      store.recordDropped(turn.agentId, messageId, { what: 'tool_result', reason });
    return (await inOrder(results, (result) => reportResult(store, turn, result), drop)).length;
  },

  refuseCalls: ({ refusals, ...fence }) => store.refuseCalls(fence, refusals),

  askApprovals: ({ requests, ...fence }) => store.askApprovals(fence, requests),

  readInbox: ({ agentId, agentTurnId, turnEpoch, ...mark }) =>
    store.readInbox({ agentId, agentTurnId, turnEpoch }, mark),

  closeStep: ({ agentId, agentTurnId, turnEpoch, ...close }) =>
    store.closeStep({ agentId, agentTurnId, turnEpoch }, close),

  async resolveWaiting({ agentId, agentTurnId, turnEpoch, callIds, ...mark }) {
    const { items, ...state } = await store.resolveWaiting({ agentId, agentTurnId, turnEpoch }, callIds, mark);
    return { ...state, ...(items ? { items: items.map((item) => withFacts(app, item)) } : {}) };
  },

  commitTurn: turnCommitter({ store, workflows, journal }),
});

/** A function that ends a turn, and starts and tells who waits for that. Errors: those of store and journal. */
export const turnCommitter = ({
  store,
  ...told
}: Pick<StoreActivityDeps, 'workflows' | 'journal'> & { readonly store: Pick<LeaseStore, 'commitTurn'> }) => {
  const handOver = endingTeller(told);
  return async ({ agentId, agentTurnId, turnEpoch, acting, privateTitles, ...commit }: CommitTurnInput) => {
    const fence = { agentId, agentTurnId, turnEpoch, ...(acting === undefined ? {} : { acting }) };
    return handOver(await store.commitTurn(fence, commit), privateTitles);
  };
};

/**
 * A function that starts and tells who waited for the end of a turn that is committed; `privateTitles`: the end is told without its words. The
 * journal has the end of a chat turn before anything follows from it (C3, C9): where it cannot be written the turn waits for that, and another
 * attempt finds the recorded end. Errors: those of the journal.
 */
export const endingTeller =
  ({ workflows, journal }: Pick<StoreActivityDeps, 'workflows' | 'journal'>) =>
  async ({ ended, handover }: Ending, privateTitles?: true): Promise<TurnEnd> => {
    await journal?.record(handover.agentId);
    await tryHandOver(workflows, handover);
    const { deliverable: _, agent: __, ...wordless } = ended;
    return privateTitles ? wordless : ended;
  };

/**
 * How long one attempt takes messages. It is shorter than an attempt may take, so that a slow store makes progress: what was handled
 * counts, and the rest comes again.
 */
const BATCH_MS = 5_000;

/**
 * Handles messages in their order until the time is up, and one at least. A message that the store refuses is dropped, which does no harm
 * to the next one; its place in what is returned is false.
 */
async function inOrder<T>(
  messages: readonly InlineMessage[],
  handle: (message: InlineMessage) => Promise<T>,
  drop: (messageId: string, reason: string) => Promise<void>,
): Promise<(T | false)[]> {
  const until = performance.now() + BATCH_MS;
  const handled: (T | false)[] = [];
  for (const message of messages) {
    if (handled.length > 0 && performance.now() > until) break;
    try {
      handled.push(await handle(message));
    } catch (error) {
      if (!(error instanceof CodedError) || isRetried(error)) throw error;
      log.warn('a message could not be handled', { messageId: message.messageId, error: error.message });
      await drop(message.messageId, `${error.code}: ${error.message}`).catch(waitForRestore);
      handled.push(false);
    }
  }
  return handled;
}

/** Throws the error; that of a damaged store as one to be tried again: somebody restores the store, and the message waits for it. */
const waitForRestore = (error: unknown): never => {
  const isDamaged = error instanceof CodedError && error.code === 'store_corrupt';
  throw isDamaged ? toApplicationFailure(error, { nonRetryable: false }) : error;
};

/** Whether the store has accepted the request of a message; where it has not, an event says why. */
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
    await tryHandOver(workflows, { agentId, next: outcome.lease, more: false, settlements: [] });
    return true;
  }
  await store.recordDropped(agentId, messageId, { what: 'enqueue', reason: `${outcome.code}: ${outcome.message}` });
  return false;
}

async function reportResult(
  store: LeaseStore & CallStore,
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
 * The report that a body stands for. A result of an unknown status, or a success with an error, is a failed result of the call it names:
 * its sender gets no answer, and the call would wait for its deadline (T20). A body that is malformed otherwise may be meant for something
 * else, and is dropped.
 */
function normalised(body: unknown): unknown {
  const { error } = toolResultReportSchema.safeParse(body);
  const named = namedCall.safeParse(body);
  if (!error || !named.success || !error.issues.every(({ path }) => path[0] === 'status' || path[0] === 'error'))
    return body;
  const message = `the result that was reported is malformed: ${z.prettifyError(error)}`;
  return { ...named.data, status: 'failed', error: { code: 'invalid_result', message, kind: 'recoverable' } };
}

const namedCall = z.object({
  callId: z.string().min(1).max(128),
  status: z.unknown().refine((status) => status !== undefined),
  turnEpoch: z.int().positive().optional(),
});
