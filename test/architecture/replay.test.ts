/**
 * Recorded histories against the current workflows: replay finds another order of commands; the comparison of values finds what replay
 * does not look at (inputs, timeouts, policies, results). A wanted change: `node test/support/record-histories.ts`, and say so in the
 * commit, for turns that are open during an upgrade meet the same difference.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Worker, type WorkflowBundleOption } from '@temporalio/worker';
import { bundleWorkflows, workflowsPath } from '../../workers/bundle.ts';
import { installRuntime } from '../../workers/runtime.ts';
import type { Termination } from '../../workflows/protocol/turn.ts';
import { type Command, issuedCommands, type RecordedHistory, recordedCommands } from '../histories/commands.ts';
import { OTHERS, TURNS } from '../histories/shapes.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HISTORIES = fileURLToPath(new URL('../histories/', import.meta.url));
const SPY = fileURLToPath(new URL('../histories/command-spy.ts', import.meta.url));
const BUNDLE_MS = 120_000;

const names = readdirSync(HISTORIES)
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.slice(0, -'.json'.length))
  .sort();

const read = (name: string): RecordedHistory => JSON.parse(readFileSync(`${HISTORIES}${name}.json`, 'utf8'));

/** A workflow checks its own id, so each history is replayed under the id it was recorded with. */
const workflowIdOf = ({ events }: RecordedHistory): string => {
  const [started] = events as readonly { workflowExecutionStartedEventAttributes?: { workflowId: string } }[];
  return started?.workflowExecutionStartedEventAttributes?.workflowId ?? '';
};

const bundleOf = (path: string): Promise<WorkflowBundleOption> =>
  bundleWorkflows('ERROR', { workflowsPath: path, workflowInterceptorModules: [SPY] });

interface Replay {
  /** Null when the current code took the same way as the recorded one. */
  readonly error: Error | null;
  /** Everything the current code asked for on that way. */
  readonly issued: readonly Command[];
}

async function replay(
  workflowBundle: WorkflowBundleOption,
  histories: readonly string[],
): Promise<Map<string, Replay>> {
  const issued = new Map<string, Command[]>();
  const fn = ({ workflowId }: { workflowId: string }, json: string) =>
    void issued.set(workflowId, [...(issued.get(workflowId) ?? []), ...issuedCommands(JSON.parse(json))]);
  const options = { workflowBundle, sinks: { spy: { issued: { fn, callDuringReplay: true } } } };
  const recorded = histories.map((name) => ({ name, history: read(name) }));
  const runs = recorded.map(({ history }) => ({ workflowId: workflowIdOf(history), history }));
  const replays = new Map<string, Replay>();
  for await (const { workflowId, error = null } of Worker.runReplayHistories(options, runs)) {
    const name = recorded[replays.size]?.name ?? '';
    replays.set(name, { error, issued: issued.get(workflowId) ?? [] });
  }
  return replays;
}

const recordable = (commands: readonly Command[]): Command[] =>
  commands.filter((command) => command.kind !== 'local activity');

installRuntime('ERROR');
let replays: Map<string, Replay>;
const replayOf = (name: string): Replay => {
  const found = replays.get(name);
  if (found) return found;
  throw new Error(`${name} was not replayed; there are ${[...replays.keys()].join(', ')}`);
};
const localInputs = (history: string, name: string): unknown[] =>
  replayOf(history).issued.flatMap((command) =>
    command.kind === 'local activity' && command.name === name ? [(command.input as unknown[])[0]] : [],
  );

beforeAll(async () => {
  replays = await replay(await bundleOf(workflowsPath), names);
}, BUNDLE_MS);

test('every shape is recorded, and nothing else', () => {
  expect(names).toEqual([...Object.keys(TURNS), ...Object.keys(OTHERS)].sort());
});

describe('the current workflows take the recorded way, with the recorded values', () => {
  test.each(names)('%s', (name) => {
    const { error, issued } = replayOf(name);
    if (error) throw error;
    expect(recordable(issued)).toEqual(recordedCommands(read(name)));
  });
});

describe('what the recordings hold', () => {
  const all = names.flatMap((name) => recordedCommands(read(name)));
  const named = (name: string) => all.filter((command) => command.name === name);
  const keysOf = (commands: readonly unknown[]) => [
    ...new Set(commands.flatMap((input) => Object.keys(input as object))),
  ];
  const final = ['stale_epoch', 'protocol_violation', 'invalid_request'];

  test('the model activity: its timeouts, retries and input', () => {
    const calls = named('callModel');
    for (const call of calls) {
      expect(call).toMatchObject({ startToClose: 30 * 60, heartbeat: 20 });
      expect(call.retry).toEqual({ initial: 1, maximum: 60, coefficient: 2, attempts: 0, final });
      expect(call.summary).toMatch(/^step \d+: model$/);
    }
    const inputs = calls.map((call) => (call.input as { request: object }[])[0]);
    const known = ['agentId', 'agentTurnId', 'inboxRead', 'noticed', 'profileHash', 'request', 'turnEpoch'];
    expect(known).toEqual(expect.arrayContaining(keysOf(inputs)));
    const requests = inputs.map((input) => input?.request);
    const parts = ['hide', 'note', 'onlyTools', 'plan', 'requireTool', 'room', 'stateBlock', 'stepIndex', 'type'];
    expect(parts).toEqual(expect.arrayContaining(keysOf(requests)));
  });

  test('the burst activity: its timeouts, retries and input', () => {
    const bursts = named('runSteps');
    for (const burst of bursts) {
      expect(burst).toMatchObject({ startToClose: 24 * 3600, heartbeat: 20 });
      expect(burst.retry).toEqual({ initial: 1, maximum: 60, coefficient: 2, attempts: 0, final });
      expect(burst.summary).toMatch(/^from step \d+$/);
    }
    const known = ['action', 'agentId', 'agentTurnId', 'engine', 'inboxRead', 'kernel', 'noticed', 'nowMs'];
    const inputs = keysOf(bursts.map((burst) => (burst.input as unknown[])[0]));
    expect([...known, 'privateTitles', 'profileHash', 'state', 'turnEpoch']).toEqual(expect.arrayContaining(inputs));
  });

  test('the tool activity: its timeouts, retries and input', () => {
    const calls = named('runTool');
    for (const call of calls) {
      expect(call).toMatchObject({ startToClose: 24 * 3600, heartbeat: 20 });
      expect(call.retry).toEqual({ initial: 0.5, maximum: 10, coefficient: 2, attempts: 0, final });
    }
    const keys = ['agentId', 'agentTurnId', 'callId', 'profileHash', 'tool', 'turnEpoch'];
    expect(keysOf(calls.map((call) => (call.input as unknown[])[0])).sort()).toEqual(keys);
  });

  test('no turn starts another workflow, waits by more than one timer at a time, or shows a status that says nothing new', () => {
    expect(all.filter((command) => command.kind === 'child')).toEqual([]);
    const kinds = (name: string) => recordedCommands(read(name)).map(({ kind }) => kind);
    expect(kinds('turn-1-call')).toEqual(['activity', 'completed']);
    expect(read('turn-1-call').events.length).toBeLessThanOrEqual(12);
    expect(kinds('single-1-call')).toEqual(['activity', 'activity', 'activity', 'completed']);
    expect(read('single-1-call').events.length).toBeLessThanOrEqual(24);
  });

  test('content stays out of the model’s and the tools’ input, however long the turn', () => {
    const sizes = [...named('callModel'), ...named('runTool')].map((call) => JSON.stringify(call.input).length);
    expect(Math.max(...sizes)).toBeLessThan(700);
  });
});

describe('what the current code asks of the store', () => {
  test.each([
    ['single-1-call', 'success', 'thought'],
    ['turn-refused-credentials', 'failed provider_auth', 'fallback'],
    ['turn-stopped-by-signal', 'failed stopped', 'fallback'],
    // The store had ended it as stopped before: that record stands, whatever the workflow commits.
    ['turn-stopped-in-tool', 'failed terminated', 'fallback'],
    ['turn-cancelled-suspended', 'failed terminated', 'fallback'],
    ['turn-cancelled-in-tool', 'failed terminated', 'fallback'],
  ])('%s is committed once: %s, from its %s', (name, ending, from) => {
    const commits = localInputs(name, 'commitTurn') as { termination: Termination }[];
    expect(commits).toMatchObject([{ turnEpoch: 1, deliverable: { from } }]);
    expect(commits.map(({ termination: { status, errorCode = '' } }) => `${status} ${errorCode}`.trim())).toEqual([
      ending,
    ]);
  });

  test.each([
    ['turn-1-call', 'success'],
    ['turn-submit-result', 'success'],
    ['turn-reminded-to-submit', 'success'],
    ['turn-must-end-with', 'success'],
    ['turn-terminating-tool', 'success'],
    ['turn-max-steps', 'partial'],
    ['turn-summarised', 'success'],
  ])('%s is ended by its burst, %s, and the workflow only closes', (name, status) => {
    expect(localInputs(name, 'commitTurn')).toEqual([]);
    expect(replayOf(name).issued.at(-1)).toMatchObject({ kind: 'completed', result: [{ status }] });
  });

  test('a turn without a lease commits nothing', () => {
    expect(localInputs('turn-without-lease', 'commitTurn')).toEqual([]);
    expect(replayOf('turn-without-lease').issued.at(-1)).toMatchObject({ kind: 'failed', name: 'protocol_violation' });
  });

  test('a workflow with the input of another one asks for nothing', () => {
    expect(replayOf('turn-of-another-workflow').issued).toMatchObject([{ kind: 'failed', name: 'protocol_violation' }]);
  });

  test('requests of foreign clients are accepted once each, by the acceptor and by a running turn', () => {
    expect(localInputs('acceptor-one-request', 'acceptInline')).toHaveLength(1);
    expect(localInputs('acceptor-without-request', 'acceptInline')).toEqual([]);
    expect(localInputs('turn-takes-requests', 'acceptInline')).toHaveLength(2);
  });

  test('a store activity is one short transaction, retried until it succeeds', () => {
    const commands = names.flatMap((name) => replayOf(name).issued).filter(({ kind }) => kind === 'local activity');
    for (const { startToClose, retry } of commands) {
      expect(startToClose).toBe(15);
      expect(retry).toMatchObject({ initial: 0.1, maximum: 10, attempts: 0 });
    }
    expect([...new Set(commands.map(({ name }) => name))].sort()).toEqual([
      'acceptInline',
      'askApprovals',
      'closeStep',
      'commitTurn',
      'refuseCalls',
      'reportInline',
      'resolveWaiting',
    ]);
  });
});

describe('an incompatible change is caught', () => {
  let dir: string;

  beforeAll(() => {
    // Inside the project, so that its imports resolve.
    mkdirSync(join(ROOT, '.agentturn'), { recursive: true });
    dir = mkdtempSync(join(ROOT, '.agentturn', 'replay-'));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  async function changed(file: string, from: string, to: string): Promise<WorkflowBundleOption> {
    const copy = mkdtempSync(join(dir, 'workflows-'));
    cpSync(join(ROOT, 'workflows'), copy, { recursive: true });
    const source = readFileSync(join(copy, file), 'utf8');
    if (source.split(from).length !== 2)
      throw new Error(`${file} must hold ${JSON.stringify(from)} once: adapt this test`);
    writeFileSync(join(copy, file), source.replace(from, to));
    return bundleOf(join(copy, 'index.ts'));
  }

  test(
    'one more activity before the first model call',
    async () => {
      const extra = 'await this.#turn.meter.store.resolveWaiting({ ...this.#turn.fence, callIds: [] });';
      const run = 'async run(): Promise<TurnEnd> {';
      const error = (await replay(await changed('turn/turn.ts', run, `${run} ${extra}`), ['turn-1-call'])).get(
        'turn-1-call',
      )?.error;
      expect(error).toMatchObject({ name: 'DeterminismViolationError' });
    },
    BUNDLE_MS,
  );

  test(
    'a turn that shows no status any more',
    async () => {
      const bundle = await changed('turn/meter.ts', '    showTurnStatus(status);', '');
      const error = (await replay(bundle, ['turn-suspended-answered'])).get('turn-suspended-answered')?.error;
      expect(error).toMatchObject({ name: 'DeterminismViolationError' });
    },
    BUNDLE_MS,
  );

  test(
    'a longer heartbeat timeout, which replay lets pass',
    async () => {
      const bundle = await changed(
        'contract/activities.ts',
        '{ ...TOOL, heartbeatTimeout: heartbeatMs, summary }',
        '{ ...TOOL, heartbeatTimeout: 30_000, summary }',
      );
      const replayed = (await replay(bundle, ['single-1-call'])).get('single-1-call');
      expect(replayed?.error).toBeNull();
      expect(recordable(replayed?.issued ?? [])).not.toEqual(recordedCommands(read('single-1-call')));
    },
    BUNDLE_MS,
  );
});
