/** The demo's app: one agent that answers a question about a folder of documents, with literal quotes, after asking a person once. */
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { Tool, ToolContext } from '../../activities/tool.ts';
import { listFiles, readFile, searchText } from './document-tools.ts';
import { Folder } from './folder.ts';
import { type DemoJob, DemoJobs, logEffect } from './jobs.ts';

/** The name of the demo's profile. */
export const DEMO_AGENT = 'demo';
/** The worker target of the demo's turns. It is a target of its own, because workers of other apps do not have these tools. */
export const DEMO_TARGET = 'demo';
/**
 * After how long a silence the turn's work is given to another worker: less than the default, so that nobody who has a worker killed waits
 * long for the next one.
 */
export const DEMO_HEARTBEAT_MS = 4_000;
/** What the workers of the demo do otherwise than others, for the same reason. */
export const DEMO_CAPACITY = { stickyMs: 2_000 } as const;
/** The name of the tool that asks a person whether to go on. */
export const CONFIRM_SCOPE = 'confirm_scope';
/** How long the agent waits for an answer before it goes on by itself; a person who is asked at a terminal gets more time by heartbeats. */
const CONFIRM_TIMEOUT_MS = 3_000;
/** The most matches that one search may return. */
const MAX_RESULTS = 200;

const INSTRUCTIONS = `You answer one question about a folder of documents, only from what is written there.

1. Call list_files, then confirm_scope once with the question and your plan in one sentence. On "no", do not search: say so and
   submit. A note narrows the scope. Without an answer in time, go on with the whole folder.
2. Search with search_text for telling words, then read around the best hits with read_file.
3. End with submit_result: "answer" is your answer in a few sentences, "sources" the list of {path, line, quote} it rests on. A quote
   is copied character for character from the file, without line numbers; line is where it begins.
   If the documents do not hold the answer, say that it was not found and give an empty list.`;

const RESULT_FIELDS = [
  { name: 'answer', description: 'the answer, or that it was not found in these documents', required: true },
  { name: 'sources', description: 'array of {path, line, quote}, empty when nothing was found', required: true },
];

/** The app as every demo and `dev` serve it: the folder of each agent is looked up in the data folder. */
export function builtInApp(dataDir: string): App {
  const jobs = new DemoJobs(dataDir);
  return createDemoApp((agentId) => jobs.of(agentId));
}

/** The app over the folders that `jobOf` names for each agent. */
export function createDemoApp(jobOf: (agentId: string) => DemoJob): App {
  const agent = defineAgent({
    name: DEMO_AGENT,
    description: 'Answers a question about a folder of documents.',
    workerTarget: DEMO_TARGET,
    instructions: INSTRUCTIONS,
    resultFields: { fields: RESULT_FIELDS },
    timeouts: { heartbeatMs: DEMO_HEARTBEAT_MS },
    // A person watches, and is not to wait for a day.
    providerPatienceMs: 30_000,
  });
  return defineApp({ agents: [agent], tools: demoTools(jobOf) });
}

/** The tools of the demo. Each logs that it starts; the three that read a folder may be run again after a crash. */
function demoTools(jobOf: (agentId: string) => DemoJob): Tool[] {
  const begin = (tool: string, { agentId, callId, attempt }: ToolContext): DemoJob => {
    const job = jobOf(agentId);
    logEffect(job, { callId, tool, attempt });
    return job;
  };
  const openFolder = (tool: string, context: ToolContext): Promise<Folder> => {
    const { dir, include } = begin(tool, context);
    return Folder.open(dir, include);
  };
  const sideEffects = 'none';
  return [
    defineTool({
      name: 'list_files',
      description: 'Lists the text files of the folder with their sizes.',
      parameters: z.strictObject({}),
      sideEffects,
      execute: async (_, context) => await listFiles(await openFolder('list_files', context), context.signal),
    }),
    defineTool({
      name: 'search_text',
      description:
        'Finds lines that contain any of the words of the query, ignoring case; lines with most of them first.',
      parameters: z.strictObject({
        query: z.string().min(1),
        max_results: z.int().min(1).max(MAX_RESULTS).optional(),
      }),
      sideEffects,
      execute: async (args, context) =>
        await searchText(await openFolder('search_text', context), args, context.signal),
    }),
    defineTool({
      name: 'read_file',
      description: 'Reads lines of a file; a long text ends early, to_line of the result tells where.',
      parameters: z.strictObject({
        path: z.string().min(1),
        from_line: z.int().min(1).optional(),
        to_line: z.int().min(1).optional(),
      }),
      sideEffects,
      execute: async (args, context) => await readFile(await openFolder('read_file', context), args),
    }),
    defineTool({
      name: CONFIRM_SCOPE,
      description: 'Asks the person once whether to go on with the plan; the result is {answer: "yes" or "no", note?}.',
      parameters: z.strictObject({ question: z.string(), plan: z.string() }),
      afterExecution: 'suspend',
      suspendTimeoutMs: CONFIRM_TIMEOUT_MS,
      // A question that is asked again after a crash is still the same call, which is answered once.
      sideEffects: 'idempotent',
      execute: (_, context) => {
        begin(CONFIRM_SCOPE, context);
        // Who chats has the agent in view and stops it where the plan is not fine.
        return context.metadata.chatId === undefined
          ? null
          : { answer: 'yes', __cg_control: { after_execution: 'continue' } };
      },
    }),
  ];
}
