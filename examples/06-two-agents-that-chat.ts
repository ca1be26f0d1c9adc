/**
 * Two agents that chat with each other. To an agent it makes no difference whether a person or another agent writes: each has a chat in which the
 * other is the sender, and this program carries what one says to the other. Their model answers as it is told to. It needs a Temporal server,
 * `npx agentturn dev` in another terminal, say:
 *
 *   node 06-two-agents-that-chat.ts                                          beside a package.json with agentturn
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect, defineAgent, defineApp } from 'agentturn';
import { startScriptedModel } from 'agentturn/testing';
import { startWorker } from 'agentturn/worker';

const teacher = defineAgent({ name: 'teacher-under-test', workerTarget: 'school', instructions: 'You teach.' });
const pupil = defineAgent({ name: 'pupil-under-test', workerTarget: 'school', instructions: 'You learn.' });
const app = defineApp({ agents: [teacher, pupil], tools: [] });

const QUESTIONS = ['Why is the sky blue?', 'And why is it red in the evening?', 'Thank you!'];
const ANSWERS = ['Air scatters blue light most.', 'The light comes a long way by then.', 'You are welcome.'];

// Each remembers what was said: the place in the conversation is the number of its own answers so far.
const model = await startScriptedModel({
  default: ({ messages }) => {
    const isTeacher = messages[0]?.content === 'You teach.';
    const place = messages.filter(({ role }) => role === 'assistant').length;
    return { kind: 'message', content: (isTeacher ? ANSWERS : QUESTIONS)[place] ?? '' };
  },
});
const client = await connect();
const { temporal, store } = client;
const worker = await startWorker({
  temporal,
  store,
  app,
  targets: ['school'],
  model: { apiKey: undefined, baseUrl: model.url, defaultModel: 'scripted' },
});

const lesson = `lesson-${randomUUID()}`;
const asTeacher = client.chat('teacher-under-test', lesson);
const asPupil = client.chat('pupil-under-test', lesson);

let said = 'The lesson begins.';
let causationId: string | undefined;
const heard: string[] = [];
for (let round = 0; round < QUESTIONS.length; round += 1) {
  for (const [chat, sender] of [
    [asPupil, 'teacher-under-test'],
    [asTeacher, 'pupil-under-test'],
  ] as const) {
    const cause = causationId === undefined ? {} : { causationId };
    // The trace is that of the lesson: who looks for it later finds all turns of both.
    const sent = await chat.send(said, { sender, traceId: lesson, ...cause });
    const { status, deliverable, traceId } = await sent.terminal();
    assert.deepEqual([status, traceId], ['completed', lesson]);
    said = deliverable?.text ?? '';
    causationId = sent.message.eventId;
    heard.push(said);
    console.log(`${chat === asPupil ? 'pupil' : 'teacher'}: ${said}`);
  }
}
assert.deepEqual(
  heard,
  QUESTIONS.flatMap((question, at) => [question, ANSWERS[at] ?? '']),
);

await worker.stop();
await client.close();
await model.close();
