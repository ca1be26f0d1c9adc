/**
 * Commands in one comparable form, read from a recorded history or from what the current code issues while that history is replayed.
 * Local activities are only on the second side: a history keeps their results, not their inputs.
 */

/** A history file: protobuf JSON, as `temporal workflow show --output json` prints it. */
export interface RecordedHistory {
  readonly events: readonly Json[];
}

/** What came out of a protobuf message; every access is checked where it is used. */
export interface Json {
  readonly [key: string]: unknown;
}

export interface Command {
  readonly kind:
    | 'activity'
    | 'local activity'
    | 'child'
    | 'timer'
    | 'search attributes'
    | 'completed'
    | 'failed'
    | 'continued';
  readonly name?: unknown;
  readonly input?: unknown;
  readonly [key: string]: unknown;
}

const PARENT_CLOSE_POLICIES = ['UNSPECIFIED', 'TERMINATE', 'ABANDON', 'REQUEST_CANCEL'];
const REUSE_POLICIES = ['UNSPECIFIED', 'ALLOW_DUPLICATE', 'ALLOW_DUPLICATE_FAILED_ONLY', 'REJECT_DUPLICATE'];

/** What the server writes into a history where the code says nothing. */
const DEFAULT_COEFFICIENT = 2;

/** The commands a history holds, in order. */
export const recordedCommands = ({ events }: RecordedHistory): Command[] =>
  events.flatMap((event) => {
    const summary = payload(at(event, 'userMetadata', 'summary'));
    for (const [key, read] of Object.entries(EVENTS)) {
      const attributes = at(event, `${key}EventAttributes`);
      if (attributes) return [read(attributes, summary)];
    }
    return [];
  });

const EVENTS: Readonly<Record<string, (attributes: Json, summary: unknown) => Command>> = {
  activityTaskScheduled: (scheduled, summary) => ({
    kind: 'activity',
    name: at(scheduled, 'activityType')?.name,
    input: payloads(at(scheduled, 'input')?.payloads),
    ...timing(scheduled),
    summary,
  }),
  startChildWorkflowExecutionInitiated: (child, summary) => ({
    kind: 'child',
    name: at(child, 'workflowType')?.name,
    input: payloads(at(child, 'input')?.payloads),
    workflowId: child.workflowId,
    queue: at(child, 'taskQueue')?.name,
    parentClosePolicy: String(child.parentClosePolicy).replace('PARENT_CLOSE_POLICY_', ''),
    reusePolicy: String(child.workflowIdReusePolicy).replace('WORKFLOW_ID_REUSE_POLICY_', ''),
    searchAttributes: attributesOf(at(child, 'searchAttributes')),
    summary,
  }),
  timerStarted: (timer, summary) => ({ kind: 'timer', seconds: seconds(timer.startToFireTimeout), summary }),
  upsertWorkflowSearchAttributes: (upsert) => ({
    kind: 'search attributes',
    searchAttributes: attributesOf(at(upsert, 'searchAttributes')),
  }),
  workflowExecutionCompleted: (end) => ({ kind: 'completed', result: payloads(at(end, 'result')?.payloads) }),
  workflowExecutionFailed: (end) => failed(at(end, 'failure')),
  workflowExecutionContinuedAsNew: (end) => ({
    kind: 'continued',
    name: at(end, 'workflowType')?.name,
    input: payloads(at(end, 'input')?.payloads),
  }),
};

/** The commands of one activation, from the sink of command-spy.ts; kinds that have no value of their own are left out. */
export const issuedCommands = (commands: readonly Json[]): Command[] =>
  commands.flatMap((command) => {
    const summary = payload(at(command, 'userMetadata', 'summary'));
    for (const [key, read] of Object.entries(COMMANDS)) {
      const body = at(command, key);
      if (body) return [read(body, summary)];
    }
    return [];
  });

const COMMANDS: Readonly<Record<string, (body: Json, summary: unknown) => Command>> = {
  scheduleActivity: (scheduled, summary) => ({
    kind: 'activity',
    name: scheduled.activityType,
    input: payloads(scheduled.arguments),
    ...timing(scheduled),
    summary,
  }),
  scheduleLocalActivity: (scheduled) => ({
    kind: 'local activity',
    name: scheduled.activityType,
    input: payloads(scheduled.arguments),
    ...timing(scheduled),
  }),
  startChildWorkflowExecution: (child, summary) => ({
    kind: 'child',
    name: child.workflowType,
    input: payloads(child.input),
    workflowId: child.workflowId,
    queue: child.taskQueue,
    parentClosePolicy: PARENT_CLOSE_POLICIES[Number(child.parentClosePolicy)],
    reusePolicy: REUSE_POLICIES[Number(child.workflowIdReusePolicy)],
    searchAttributes: attributesOf(at(child, 'searchAttributes')),
    summary,
  }),
  startTimer: (timer, summary) => ({ kind: 'timer', seconds: seconds(timer.startToFireTimeout), summary }),
  upsertWorkflowSearchAttributes: (upsert) => ({
    kind: 'search attributes',
    searchAttributes: attributesOf(at(upsert, 'searchAttributes')),
  }),
  completeWorkflowExecution: (end) => ({ kind: 'completed', result: [payload(end.result)] }),
  failWorkflowExecution: (end) => failed(at(end, 'failure')),
  continueAsNewWorkflowExecution: (end) => ({
    kind: 'continued',
    name: end.workflowType,
    input: payloads(end.arguments),
  }),
};

const timing = (scheduled: Json) => {
  const retry = at(scheduled, 'retryPolicy');
  return {
    startToClose: seconds(scheduled.startToCloseTimeout),
    heartbeat: seconds(scheduled.heartbeatTimeout),
    retry: {
      initial: seconds(retry?.initialInterval),
      maximum: seconds(retry?.maximumInterval),
      coefficient: retry?.backoffCoefficient ?? DEFAULT_COEFFICIENT,
      attempts: retry?.maximumAttempts ?? 0,
      final: retry?.nonRetryableErrorTypes ?? [],
    },
  };
};

const failed = (failure: Json | undefined): Command => {
  const info = at(failure ?? {}, 'applicationFailureInfo');
  return { kind: 'failed', name: info?.type, message: failure?.message, nonRetryable: info?.nonRetryable };
};

function at(value: Json, ...path: readonly string[]): Json | undefined {
  let here: unknown = value;
  for (const key of path) here = typeof here === 'object' && here !== null ? Reflect.get(here, key) : undefined;
  return typeof here === 'object' && here !== null ? (here as Json) : undefined;
}

const payloads = (list: unknown): unknown[] => (Array.isArray(list) ? list.map(payload) : []);

/** Data is base64 in a history, and text when it comes from the spy. */
function payload(value: unknown): unknown {
  const { data } = at({ value }, 'value') ?? {};
  if (typeof data === 'string') return JSON.parse(Buffer.from(data, 'base64').toString());
  const text = at({ data }, 'data')?.text;
  return typeof text === 'string' ? JSON.parse(text) : undefined;
}

const attributesOf = (searchAttributes: Json | undefined): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(at({ searchAttributes }, 'searchAttributes', 'indexedFields') ?? {}).map(([name, value]) => [
      name,
      payload(value),
    ]),
  );

/** `"1.500s"` in a history, seconds and nanoseconds in a command; our timers are whole ms. */
function seconds(duration: unknown): number {
  if (typeof duration === 'string') return Number.parseFloat(duration);
  const { seconds: whole, nanos } = at({ duration }, 'duration') ?? {};
  return (Number(at({ whole }, 'whole')?.low ?? 0) * 1e3 + Math.round(Number(nanos ?? 0) / 1e6)) / 1e3;
}
