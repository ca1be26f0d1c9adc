import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type OpenAI from 'openai';
import { OFFLINE_MODEL, startOfflineModel } from '../../../../workers/demo/answerer/offline.ts';
import type { ModelServer } from '../../../../workers/model-server/wire.ts';
import { clientOf } from '../../model-server/support.ts';
import { DOCUMENT_TOOLS, type DocumentFolder, makeFolder, offer, runTurn, type TurnRecord } from './document-folder.ts';

const README = `# Bramble

<p align="center"><img src="logo.svg" alt="bramble queue retry logo"></p>

Bramble is a job queue for small teams. It keeps jobs in one file
and needs no server.

- [Retrying jobs](#retrying-jobs)

## Installation

\`\`\`sh
npm install bramble
\`\`\`

## Retrying jobs

A failed job is retried five times, e.g. after a crash of the worker. The delay doubles
with each attempt and starts at two seconds.

## Limits

| limit | value |
| payload of a job | 64 KiB |
`;

const GUIDE = `# Guide

A *lane* is a named list of jobs that run one after another. Lanes do not share workers.

Why one file? We keep one file because a backup is then a copy.

${'A very long paragraph without any hint. '.repeat(20)}The dashboard listens on port 7421 by default.
`;

const SOURCE = `import { open } from 'node:fs';

/**
 * Opens the queue file. The lock is taken for the life of the process.
 */
export function openQueue(path: string) {
  return open(path);
}
`;

const MINIFIED = `var a="dashboard port default dashboard port default";${'x();'.repeat(200)}`;

let server: ModelServer;
let client: OpenAI;
let folder: DocumentFolder;
beforeAll(async () => {
  server = await startOfflineModel();
  client = clientOf(server);
  folder = makeFolder({
    'README.md': README,
    'docs/guide.md': GUIDE,
    'src/queue.ts': SOURCE,
    'dist/app.min.js': MINIFIED,
    'windows.txt': 'Backups:\r\nA backup is made every night at two.\r\nIt is kept for nine days.\r\n',
  });
});
afterAll(async () => {
  await server.close();
  folder.remove();
});

const ask = (question: string) => runTurn(client, folder, question, { answer: 'yes' });

const bytes = async (body: object) => {
  const response = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  return response.text();
};

function expectLiteral({ submitted }: TurnRecord): void {
  for (const { path, line, quote } of submitted?.sources ?? []) {
    const lines = folder.read(path).split('\n');
    expect(lines.slice(line - 1).join('\n')).toContain(quote);
    expect(lines[line - 1]).toContain(quote.split('\n')[0]);
    expect(quote.length).toBeLessThanOrEqual(300);
    expect(submitted?.answer).toContain(quote);
  }
}

describe('a question that the documents answer', () => {
  test.each([
    ['What is Bramble?', 'README.md', 'Bramble is a job queue for small teams.'],
    ['What is a lane?', 'docs/guide.md', 'A *lane* is a named list of jobs'],
    ['How do I install bramble?', 'README.md', 'npm install bramble'],
    ['How often is a failed job retried?', 'README.md', 'A failed job is retried five times, e.g. after a crash'],
    ['How large may the payload of a job be?', 'README.md', 'payload of a job | 64 KiB'],
    ['Why does a backup need one file?', 'docs/guide.md', 'because a backup is then a copy.'],
    ['Which port does the dashboard listen on?', 'docs/guide.md', 'The dashboard listens on port 7421 by default.'],
    ['What does `openQueue` do with the lock?', 'src/queue.ts', 'The lock is taken for the life of the process.'],
    ['When are backups made?', 'windows.txt', 'A backup is made every night at two.'],
    ['What is this about?', 'README.md', 'Bramble is a job queue for small teams.'],
    ['Hello. Which port does the dashboard listen on? Please be brief.', 'docs/guide.md', 'port 7421'],
  ])('%s', async (question, path, quote) => {
    const turn = await ask(question);
    expect(turn.submitted?.sources[0]).toMatchObject({ path, quote: expect.stringContaining(quote) });
    expectLiteral(turn);
  });

  test('goes list, confirm, search, read, submit', async () => {
    const { steps } = await ask('How often is a failed job retried?');
    expect(steps.slice(0, 3)).toEqual([['list_files'], ['confirm_scope'], ['search_text']]);
    expect(steps.slice(3, -2).flat()).toEqual(steps.slice(3, -2).map(() => 'search_text'));
    expect(new Set(steps.at(-2))).toEqual(new Set(['read_file']));
    expect(steps.at(-1)).toEqual(['submit_result']);
  });

  test('says that no language model was at work', async () => {
    const { submitted } = await ask('What is Bramble?');
    expect(submitted?.answer).toContain('offline model: a weak rule-based stand-in, no language model');
  });

  test('reads several places in one step', async () => {
    const { steps } = await ask('How are jobs and lanes kept in one file?');
    expect(steps.at(-2)?.length).toBeGreaterThan(1);
  });

  test('asks nobody when no confirmation is offered', async () => {
    const { steps, submitted } = await runTurn(client, folder, 'What is a lane?');
    expect(steps.flat()).not.toContain('confirm_scope');
    expect(submitted?.sources).toHaveLength(1);
  });
});

test.each([
  'What is the capital of Mongolia?',
  'Who won the 1998 world cup?',
  'How long does a refund take?',
  'What is the meaning of life?',
  'Does Bramble run on Kubernetes?',
  'Why is there one?',
  'Wie wird das Wetter morgen?',
])('a question that they do not answer: %s', async (question) => {
  const { submitted } = await ask(question);
  expect(submitted?.answer).toContain('not found in these documents');
  expect(submitted?.sources).toEqual([]);
});

describe('the person who is asked about the scope', () => {
  test('sees the question and a plan', async () => {
    const { messages } = await ask('How often is a failed job retried?');
    const call = messages.flatMap((message) => ('tool_calls' in message ? (message.tool_calls ?? []) : []))[1];
    const given: unknown = call?.type === 'function' ? JSON.parse(call.function.arguments) : undefined;
    expect(given).toEqual({
      question: 'How often is a failed job retried?',
      plan: expect.stringMatching(/^Search all 5 files for failed, job, retried,/),
    });
  });

  test('may decline: nothing is searched, and the answer says why', async () => {
    const { steps, submitted } = await runTurn(client, folder, 'What is a lane?', { answer: 'no', note: 'private' });
    expect(steps).toEqual([['list_files'], ['confirm_scope'], ['submit_result']]);
    expect(submitted).toMatchObject({ answer: expect.stringContaining('declined'), sources: [] });
  });

  test('may be kept from agreeing by an approver, which is a no', async () => {
    const denied = { error: { code: 'approval_denied', message: 'The operator denied it.' } };
    const { submitted } = await runTurn(client, folder, 'What is a lane?', denied);
    expect(submitted).toMatchObject({ answer: expect.stringContaining('declined'), sources: [] });
  });

  test('may not answer in time: the whole folder is searched, and the answer says so', async () => {
    const late = { error: { code: 'tool_timeout', message: 'Nobody answered.' } };
    const { submitted } = await runTurn(client, folder, 'What is a lane?', late);
    expect(submitted?.answer).toContain('Nobody confirmed the scope in time (tool_timeout)');
    expect(submitted?.sources).toHaveLength(1);
  });

  test('may narrow the scope to a folder', async () => {
    const yes = { answer: 'yes' as const, note: 'only look into docs/, please' };
    const inside = await runTurn(client, folder, 'What is a lane?', yes);
    expect(inside.submitted?.sources.map((source) => source.path)).toEqual(['docs/guide.md']);
    expect(inside.submitted?.answer).toContain('only docs was searched');
    const outside = await runTurn(client, folder, 'How often is a failed job retried?', yes);
    expect(outside.submitted?.sources).toEqual([]);
  });

  test('may name a folder that a long list left out', async () => {
    const outcome = (name: string, args: object, result: object) => [
      {
        role: 'assistant',
        tool_calls: [{ id: name, type: 'function', function: { name, arguments: JSON.stringify(args) } }],
      },
      { role: 'tool', tool_call_id: name, content: JSON.stringify(result) },
    ];
    const messages = [
      { role: 'user', content: 'What is a lane?' },
      ...outcome('list_files', {}, { files: [{ path: 'a.md', bytes: 1 }], total: 900, truncated: true }),
      ...outcome('confirm_scope', {}, { answer: 'yes', note: 'only src/v4 please' }),
      ...outcome('search_text', { query: 'lane' }, { matches: [], files_searched: 900, truncated: false }),
    ];
    const body = await bytes({ model: 'x', messages, tools: offer(...DOCUMENT_TOOLS) });
    expect(body).toContain('only src/v4 was searched');
  });

  test('learns when a note named no path', async () => {
    const { submitted } = await runTurn(client, folder, 'What is a lane?', { answer: 'yes', note: 'be quick' });
    expect(submitted?.answer).toContain('it names no path, so all was searched');
    expect(submitted?.sources).toHaveLength(1);
  });
});

describe('deterministic and without memory', () => {
  test('the same conversation gives the same bytes, at every step', async () => {
    const { messages } = await ask('How are jobs and lanes kept in one file?');
    const tools = offer(...DOCUMENT_TOOLS, 'confirm_scope');
    const starts = messages.flatMap((message, index) => (message.role === 'assistant' ? [index] : []));
    expect(starts.length).toBeGreaterThan(4);
    for (const start of starts) {
      const body = { model: 'x', messages: messages.slice(0, start), tools, stream: true };
      expect(await bytes(body)).toBe(await bytes(body));
    }
  });

  test('a second question in the conversation is answered for itself', async () => {
    const { messages } = await runTurn(client, folder, 'What is a lane?');
    const call = messages.at(-1);
    const id = call && 'tool_calls' in call ? call.tool_calls?.[0]?.id : undefined;
    const answered = { role: 'tool', tool_call_id: id, content: '{}' };
    const next = [...messages, answered, { role: 'user', content: 'What is Bramble?' }];
    const body = await bytes({ model: 'x', messages: next, tools: offer(...DOCUMENT_TOOLS) });
    expect(body).toContain('list_files');
    expect(JSON.parse(body).model).toBe(OFFLINE_MODEL);
  });

  test('when only the report is left to offer, what was read is reported', async () => {
    const { messages } = await runTurn(client, folder, 'What is a lane?');
    const body = await bytes({ model: 'x', messages: messages.slice(0, -1), tools: offer('submit_result') });
    expect(body).toContain('is a named list of jobs');
  });

  test('a report that was refused is not sent again', async () => {
    const { messages } = await runTurn(client, folder, 'What is a lane?');
    const call = messages.at(-1);
    const id = call && 'tool_calls' in call ? call.tool_calls?.[0]?.id : undefined;
    const refused = { role: 'tool', tool_call_id: id, content: '{"error":{"code":"missing_result_fields"}}' };
    const body = await bytes({ model: 'x', messages: [...messages, refused], tools: offer(...DOCUMENT_TOOLS) });
    expect(JSON.parse(body).choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: expect.stringContaining('is a named list of jobs') },
    });
  });

  test('a search that fails is reported, not hidden', async () => {
    const messages = [
      { role: 'user', content: 'What is a lane?' },
      {
        role: 'assistant',
        tool_calls: ['list_files', 'search_text'].map((name) => ({
          id: name,
          type: 'function',
          function: { name, arguments: '{}' },
        })),
      },
      { role: 'tool', tool_call_id: 'list_files', content: '{"files":[],"total":0}' },
      { role: 'tool', tool_call_id: 'search_text', content: '{"error":{"code":"tool_failed","message":"disk"}}' },
    ];
    const body = await bytes({ model: 'x', messages, tools: offer(...DOCUMENT_TOOLS) });
    expect(body).toContain('A call of search_text failed (tool_failed)');
  });
});
