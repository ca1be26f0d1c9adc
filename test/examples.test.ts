/** The examples that run by themselves, as their comments say; the app of the first one is served by the test of the README. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { openHarness } from './support/harness.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('..', import.meta.url));

test('the kernel alone runs a turn: two calls, approval for one of them, an answer', async () => {
  const { stdout } = await run(process.execPath, ['--conditions=agentturn:source', 'examples/02-kernel-alone.ts'], {
    cwd: ROOT,
  });
  const lines = stdout.trimEnd().split('\n');
  const steps = lines.flatMap((line) => /^(\w+ → \w+) /.exec(line)?.[1] ?? []);
  expect(steps).toEqual([
    'start → call_llm',
    'llm_response → execute_tools',
    'tool_results → await',
    'approval → execute_tools',
    'tool_results → call_llm',
    'llm_response → done',
  ]);
  expect(stdout).toContain('"ask":[{"callId":"call-book","tool":"book","reason":"it costs 100 or more"}]');
  // Each card once; those of a step together, when the last call of it has its result.
  expect(lines.filter((line) => /^ {2}(user|assistant|tool):/.test(line))).toEqual([
    '  user: Book me a train to Rome, if the weather is fine.',
    '  assistant: ',
    '  tool: tomorrow will be sunny in Rome',
    '  tool: a train to Rome is booked for 120',
    '  assistant: Done: tomorrow will be sunny in Rome; a train to Rome is booked for 120.',
  ]);
  expect(lines.at(-1)).toBe(
    'ended success after 2 model calls: Done: tomorrow will be sunny in Rome; a train to Rome is booked for 120.',
  );
});

/** Runs an example beside a server and a store of its own, and returns what it prints. */
async function printed(example: string): Promise<string> {
  const harness = await openHarness();
  try {
    const { stdout } = await run(process.execPath, ['--conditions=agentturn:source', `examples/${example}`], {
      cwd: ROOT,
      env: {
        ...process.env,
        TEMPORAL_ADDRESS: harness.address,
        TEMPORAL_NAMESPACE: harness.namespace,
        AGENTTURN_STORE: harness.storeUrl,
      },
    });
    return stdout;
  } finally {
    await harness.close();
  }
}

test('an agent is tested with a model that answers as it is told to', async () => {
  expect(await printed('03-test-an-agent.ts')).toContain('the agent does as it should');
});

test('an agent waits for something outside and for a person, and tells what it is at', async () => {
  const lines = (await printed('04-an-agent-that-waits.ts')).trimEnd().split('\n');
  // What it is at while it works depends on when it is asked.
  expect(lines.filter((line) => /^(waiting|idle)/.test(line))).toEqual([
    'waiting_for_external: the carrier brings the desk',
    'waiting_for_operator: the desk has a scratch: is it kept?',
    expect.stringMatching(/^idle: /),
  ]);
  expect(lines.at(-1)).toBe('the agent has done its work in six turns, and rested between them');
});

test('two people share a chat: what they write meanwhile becomes one turn, in which each is named (C8)', async () => {
  const lines = (await printed('05-a-chat-with-two-people.ts')).trimEnd().split('\n');
  expect(lines).toEqual([
    'ann: Find us a table for two. (processing)',
    'bob: a window seat (queued)',
    'ann: a late start (collected)',
    'host: Noted: bob wants a window seat; ann wants a late start.',
  ]);
});

test('two agents chat with each other, and each remembers what was said (C5)', async () => {
  const lines = (await printed('06-two-agents-that-chat.ts')).trimEnd().split('\n');
  expect(lines).toHaveLength(6);
  expect(lines.slice(0, 2)).toEqual(['pupil: Why is the sky blue?', 'teacher: Air scatters blue light most.']);
});
