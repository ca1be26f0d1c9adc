/** What the gateway takes in paths and queries, and what it gives back, for its checks and for the OpenAPI document. */
import { z } from '@hono/zod-openapi';
import { RESULT_STATUSES } from '../../workflows/protocol/cards.ts';
import { USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';
import { OPEN_STATUSES, TERMINAL_STATUSES } from '../../workflows/protocol/turn.ts';
import { SCOPES } from './caller.ts';

const STATUSES = [...OPEN_STATUSES, ...TERMINAL_STATUSES] as const;

/** The id of an agent in a path. */
export const agentParams = z.object({
  agentId: z.string().regex(USER_ID_PATTERN, {
    error: 'must be 1 to 128 of letters, digits, ". _ ~ -", starting with a letter or digit',
  }),
});

/** An id that the runtime made: of a turn, a call, a card or a box. */
const madeId = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x21-\x7e]+$/, { error: 'must be 1 to 128 printable characters without spaces' });

/** The id of a turn in a path. */
export const turnParams = z.object({ agentTurnId: madeId });
/** The ids of a turn and of one of its calls in a path. */
export const callParams = turnParams.extend({ callId: madeId });
/** The id of a card in a path. */
export const cardParams = z.object({ cardId: madeId });
/** The id of a box in a path. */
export const boxParams = z.object({ boxId: madeId });

const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/, { error: 'must be a whole number' })
  .transform(Number);
const between = (least: number, most: number) =>
  wholeNumber.pipe(z.int().min(least).max(most)).openapi({ type: 'integer', minimum: least, maximum: most });

/** How many items a page has at most. */
export const limit = between(1, 1_000).optional();
/** A time, epoch ms. */
export const epochMs = between(0, Number.MAX_SAFE_INTEGER);
/** A place in a list or a log, from 1. */
export const place = between(0, Number.MAX_SAFE_INTEGER);
/** How long to wait for the end of a turn, seconds. */
export const waitSeconds = between(0, 60).optional();
/** Yes or no in a query. */
export const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
/** One status of a turn, or several with commas between them. */
export const statuses = z
  .string()
  .max(200)
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(STATUSES)).min(1))
  .openapi({ type: 'string', example: 'running,suspended' });
/** One status of a turn. */
export const status = z.enum(STATUSES);
/** Which id to list behind. */
export const behindId = madeId;

const json = z.unknown().openapi({ description: 'Any JSON.' });
const object = z.record(z.string(), z.unknown());
/** Whose something is. */
export const tenantSchema = z
  .string()
  .nullable()
  .openapi({ description: 'Whose it is; null for one of the operators.' });
/** A time that goes out, epoch ms. */
export const storeTime = z.int().openapi({ description: 'Epoch ms by the clock of the store.' });

/** An error: RFC 9457. */
export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().openapi({ description: 'A code of the error catalogue.' }),
    retryable: z.boolean(),
    cure: z.string(),
  })
  .openapi('Problem');

/** Who calls. */
export const callerSchema = z
  .object({
    name: z.string(),
    scopes: z.array(z.enum(SCOPES)),
    agents: z
      .array(z.string())
      .nullable()
      .openapi({ description: 'Beginnings of the ids of the agents that the token sees; null for all.' }),
    webUi: z.string().nullable().openapi({ description: "The list of workflows in Temporal's Web UI, where known." }),
  })
  .openapi('Caller');

/** A page of a list. */
export const pageOf = (item: z.ZodType) =>
  z.object({
    items: z.array(item),
    next: z
      .string()
      .nullable()
      .openapi({ description: 'What gives the next page, in the query; null behind the last one.' }),
  });

/** The answer to an accepted request. */
export const enqueueAckSchema = z
  .object({ agentTurnId: z.string(), agentId: z.string(), position: z.int(), status, duplicate: z.boolean() })
  .openapi('EnqueueAck');

/** Tokens. */
export const usedTokens = z.object({
  input: z.int(),
  output: z.int(),
  cached: z.int(),
  estimated: z.literal(true).optional(),
});

const call = z.object({
  callId: z.string(),
  tool: z.string(),
  arguments: json,
  approval: object.nullable(),
  status: z.enum([...RESULT_STATUSES, 'waiting', 'open']),
  progress: json.nullable(),
  error: object.nullable(),
  durationMs: z.int().nullable(),
});

const step = z.object({
  stepIndex: z.int(),
  model: z.string().nullable(),
  usage: usedTokens.nullable(),
  cost: z.number().nullable(),
  latencyMs: z.int().nullable(),
  firstTokenMs: z.int().nullable(),
  calls: z.array(call),
});

const waiting = z.object({
  callId: z.string(),
  kind: z.enum(['tool', 'join', 'approval']),
  tool: z.string(),
  deadline: storeTime,
  approvers: z.array(z.string()),
  deferred: object.nullable(),
});

/** That nobody serves a worker target. */
export const lackedWorkers = z.object({ workerTarget: z.string(), since: storeTime });

/** How a chat turn is known to the outside. */
export const chatIdentity = z.object({
  sessionId: z.string(),
  chatId: z.string(),
  traceId: z.string(),
  correlationId: z.string(),
});

/** A turn. */
export const turnSchema = z
  .object({
    agentTurnId: z.string(),
    agentId: z.string(),
    status,
    errorCode: z.string().nullable(),
    reason: z.string().nullable(),
    cure: z.string().nullable(),
    turnEpoch: z.int().nullable(),
    profile: z.string(),
    instruction: z.string(),
    chat: chatIdentity.nullable(),
    deliverable: object.nullable(),
    deliverableCardId: z.string().nullable(),
    outputBoxId: z.string().nullable(),
    usage: usedTokens,
    cost: z.number().nullable(),
    engine: object.nullable(),
    stepCount: z.int(),
    steps: z.array(step),
    waiting: z.array(waiting),
    waitingForWorkers: lackedWorkers.nullable(),
    waitingForProvider: object.nullable(),
    parent: z.object({ agentId: z.string(), agentTurnId: z.string(), callId: z.string().nullable() }).nullable(),
    depth: z.int(),
    acceptSeq: z.int(),
    acceptedAt: storeTime,
    leasedAt: storeTime.nullable(),
    startedAt: storeTime.nullable(),
    endedAt: storeTime.nullable(),
  })
  .openapi('Turn');

/** A turn in a list. */
export const turnSummarySchema = z
  .object({
    agentTurnId: z.string(),
    agentId: z.string(),
    profile: z.string(),
    status,
    errorCode: z.string().nullable(),
    reason: z.string().nullable(),
    asked: z.string(),
    usage: usedTokens,
    cost: z.number().nullable(),
    stepCount: z.int(),
    acceptedAt: storeTime,
    startedAt: storeTime.nullable(),
    endedAt: storeTime.nullable(),
  })
  .openapi('TurnSummary');

const question = {
  callId: z.string(),
  agentId: z.string(),
  agentTurnId: z.string(),
  tool: z.string(),
  arguments: object.nullable(),
  written: object.nullable(),
  approvers: z.array(z.string()),
  deadline: storeTime,
  createdAt: storeTime,
};

/** A question to people. */
export const approvalSchema = z
  .object({
    ...question,
    rootTurnId: z.string(),
    kind: z.enum(['call', 'budget']),
    reason: z.string(),
    escalated: z.boolean(),
    status: z.enum(['waiting', 'approved', 'denied', 'unanswered', 'dropped']),
    answeredBy: z.string().nullable(),
  })
  .openapi('Approval');

/** Something that waits for somebody outside. */
export const inboxEntrySchema = z
  .object({
    ...question,
    kind: z.enum(['approval', 'budget', 'result']),
    reason: z.string().nullable(),
    queuedBehind: z.int(),
  })
  .openapi('InboxEntry');

/** What turns spent. */
export const spendingSchema = z
  .object({
    of: z.string(),
    turns: z.int(),
    failed: z.int(),
    tokens: z.int(),
    cost: z.number(),
    uncosted: z.int(),
  })
  .openapi('Spending');

/** An entry of a transcript; its other fields follow from its kind. */
export const transcriptEntrySchema = z
  .looseObject({
    kind: z.enum(['request', 'steer', 'thought', 'call', 'result', 'budget', 'note', 'summary', 'deliverable']),
    seq: z.int(),
    at: storeTime,
    hidden: z.enum(['rolled_back', 'summarised']).nullable(),
  })
  .openapi('TranscriptEntry');

const TREE_NODE = {
  type: 'object',
  description: 'A call, a turn, or an edge without its partner.',
  properties: {
    node: { type: 'string', enum: ['call', 'turn', 'loose'] },
    callId: { type: ['string', 'null'] },
    tool: { type: 'string' },
    agentTurnId: { type: 'string' },
    agentId: { type: ['string', 'null'] },
    stepIndex: { type: ['integer', 'null'] },
    status: { type: 'string' },
    startedAt: { type: 'integer' },
    endedAt: { type: ['integer', 'null'] },
    children: { type: 'array', items: { $ref: '#/components/schemas/TreeNode' } },
  },
  required: ['node', 'startedAt'],
} as const;

/** What a turn caused. A schema of zod that names itself has no name in the document. */
export const treeSchema = z
  .object({
    node: z.literal('turn'),
    agentTurnId: z.string(),
    agentId: z.string().nullable(),
    stepIndex: z.int().nullable(),
    status: z.string().openapi({
      description:
        'How it ended, `open` until then; `not_read` where the tree is too large: ask for the tree of that turn.',
    }),
    depth: z.int(),
    correlationId: z.string().nullable(),
    traceId: z.string().nullable(),
    startedAt: storeTime,
    endedAt: storeTime.nullable(),
    children: z.array(z.record(z.string(), z.unknown()).openapi('TreeNode', TREE_NODE as never)),
  })
  .openapi('Tree');

/** A card; its content follows from its type. */
export const cardSchema = z
  .object({
    cardId: z.string(),
    type: z.string(),
    content: object,
    agentTurnId: z.string().nullable(),
    stepIndex: z.int().nullable(),
    callId: z.string().nullable(),
    tokens: z.int(),
  })
  .openapi('Card');
