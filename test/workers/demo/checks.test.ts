import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { checkAnswer, checkRun, type RunFacts } from '../../../workers/demo/checks.ts';
import { Folder } from '../../../workers/demo/folder.ts';
import type { Effect } from '../../../workers/demo/jobs.ts';
import { replyOf } from '../../../workers/demo/person.ts';
import type { AgentEvent, EventBody } from '../../../workflows/contract/events.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';

let folder: Folder;
beforeAll(async () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-checks-'));
  writeFileSync(join(dir, 'a.md'), 'One line.\r\nAnother *line*.\n');
  folder = await Folder.open(dir);
});

const answered = (answer: JsonValue, sources: JsonValue) => ({
  fields: [
    { name: 'answer', value: answer },
    { name: 'sources', value: sources },
  ],
});

describe('the answer of a demo', () => {
  const good = { path: 'a.md', line: 1, quote: 'One line.\nAnother *line*.' };

  test('passes when every quote is literally there, whatever the line breaks', async () => {
    const { checks, sources } = await checkAnswer(answered('yes', [good]), folder);
    expect(checks).toMatchObject([{ name: 'sources', ok: true }]);
    expect(sources).toEqual([good]);
  });

  test('passes without sources: nothing was found', async () => {
    expect((await checkAnswer(answered('not found', []), folder)).checks).toMatchObject([{ ok: true }]);
  });

  test('takes a list that came as JSON text', async () => {
    const { checks, sources } = await checkAnswer(answered('yes', JSON.stringify([good])), folder);
    expect(checks).toMatchObject([{ ok: true }]);
    expect(sources).toHaveLength(1);
  });

  test.each([
    ['a quote that is not literal', { ...good, quote: 'Another line.' }, /does not hold/],
    ['a file that is not there', { ...good, path: 'b.md' }, /no such file/],
    ['a file outside', { ...good, path: '../../etc/passwd' }, /no such file/],
  ])('fails for %s', async (_, source, problem) => {
    const { checks, sources } = await checkAnswer(answered('yes', [good, source]), folder);
    expect(checks).toMatchObject([{ name: 'sources', ok: false }]);
    expect(sources.map((checked) => checked.problem)).toEqual([undefined, expect.stringMatching(problem)]);
  });

  test.each([
    ['no deliverable', null],
    ['a text instead of fields', { text: 'yes' }],
    ['sources of another shape', answered('yes', [{ path: 'a.md' }])],
    ['an empty quote', answered('yes', [{ ...good, quote: '' }])],
  ])('fails for %s', async (_, deliverable) => {
    expect((await checkAnswer(deliverable, folder)).checks).toMatchObject([{ name: 'sources', ok: false }]);
  });
});

describe('the run of a demo', () => {
  const event = (body: EventBody): AgentEvent => ({
    ...body,
    id: 1,
    seq: 1,
    agentId: 'demo-1',
    agentTurnId: 't',
    createdAt: 0,
  });
  const state = (turnEpoch: number) =>
    event({ type: 'state', payload: { status: 'running', turnEpoch, waitingToolCount: 0, resumeDeadline: null } });
  const task = event({
    type: 'task',
    payload: { status: 'success', errorCode: null, deliverableCardId: 'd', outputBoxId: 'b' },
  });
  const effect = (callId: string, pid: number): Effect => ({ callId, tool: 'read_file', attempt: 1, pid, at: 0 });
  const crash = { killed: 1, second: 2, settledAtKill: new Set(['c1']) };
  const facts = (more: Partial<RunFacts>): RunFacts => ({
    agentTurnId: 't',
    events: [state(1), task],
    effects: [effect('c1', 1), effect('c2', 2)],
    crash: undefined,
    ...more,
  });
  const failed = (more: Partial<RunFacts>) => checkRun(facts(more)).flatMap((check) => (check.ok ? [] : [check.name]));

  test.each<[string, Partial<RunFacts>, string[]]>([
    ['all once', {}, []],
    ['all once over a crash', { crash }, []],
    ['a call twice', { effects: [effect('c1', 1), effect('c1', 1)] }, ['starts']],
    ['a stored call again after the crash', { crash, effects: [effect('c1', 1), effect('c1', 2)] }, ['starts']],
    ['an open call again after the crash', { crash, effects: [effect('c2', 1), effect('c2', 2)] }, []],
    ['no task event', { events: [state(1)] }, ['task_event']],
    ['two task events', { events: [state(1), task, task] }, ['task_event']],
    ['a second lease', { events: [state(1), state(2), task] }, ['lease']],
    ['a second worker that did nothing', { crash, effects: [effect('c1', 1)] }, ['crash']],
    ['a crash that did not happen', { crash: { ...crash, killed: undefined, second: undefined } }, ['crash']],
  ])('%s', (_, more, names) => {
    expect(failed(more)).toEqual(names);
  });
});

test.each([
  ['', { answer: 'yes' }],
  ['Y', { answer: 'yes' }],
  ['no', { answer: 'no' }],
  ['only docs/', { answer: 'yes', note: 'only docs/' }],
])('a person who types %j answers %j', (reply, answer) => {
  expect(replyOf(reply)).toEqual(answer);
});
