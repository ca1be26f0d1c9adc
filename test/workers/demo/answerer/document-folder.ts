/** A folder of documents on disk, the tools of a document question over it, and the person asked about the scope. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import type OpenAI from 'openai';
import type { ChatCompletionMessageFunctionToolCall, ChatCompletionMessageParam } from 'openai/resources';
import { z } from 'zod';

export interface DocumentFolder {
  readonly root: string;
  read(path: string): string;
  remove(): void;
}

export function makeFolder(files: Readonly<Record<string, string>>): DocumentFolder {
  const root = mkdtempSync(join(tmpdir(), 'documents-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  return { root, read, remove: () => rmSync(root, { recursive: true }) };
}

export interface Submitted {
  readonly answer: string;
  readonly sources: readonly { readonly path: string; readonly line: number; readonly quote: string }[];
}

export interface TurnRecord {
  readonly submitted: Submitted | undefined;
  readonly text: string | null;
  /** Names of the calls, one list a step. */
  readonly steps: readonly (readonly string[])[];
  readonly messages: readonly ChatCompletionMessageParam[];
}

/** What `confirm_scope` returns; without it the tool is not offered. */
export type Person = { answer: 'yes' | 'no'; note?: string } | { error: { code: string; message: string } };

export const DOCUMENT_TOOLS = ['list_files', 'search_text', 'read_file', 'submit_result'] as const;

export const offer = (...names: readonly string[]): OpenAI.ChatCompletionFunctionTool[] =>
  names.map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }));

/** Runs a turn against the model until it submits or speaks. */
export async function runTurn(
  client: OpenAI,
  folder: DocumentFolder,
  question: string,
  person?: Person,
  maxSteps = 10,
): Promise<TurnRecord> {
  const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: question }];
  const tools = offer(...DOCUMENT_TOOLS, ...(person ? ['confirm_scope'] : []));
  const steps: string[][] = [];
  while (steps.length < maxSteps) {
    const { message } = await client.chat.completions
      .stream({ model: 'x', messages, tools })
      .finalChatCompletion()
      .then(first);
    const calls = (message.tool_calls ?? []).filter((call) => call.type === 'function');
    if (calls.length === 0) return { submitted: undefined, text: message.content, steps, messages };
    steps.push(calls.map((call) => call.function.name));
    messages.push({ role: 'assistant', content: message.content, tool_calls: calls });
    const submit = calls.find((call) => call.function.name === 'submit_result');
    if (submit) return { submitted: submittedBy(submit), text: null, steps, messages };
    for (const call of calls) {
      const result = call.function.name === 'confirm_scope' ? person : runTool(folder, call);
      messages.push({ role: 'tool', tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
  throw new Error(`no end after ${maxSteps} steps: ${JSON.stringify(steps)}`);
}

function first(completion: OpenAI.ChatCompletion): OpenAI.ChatCompletion.Choice {
  const [choice] = completion.choices;
  if (!choice) throw new Error('a completion without a choice');
  return choice;
}

function submittedBy(call: ChatCompletionMessageFunctionToolCall): Submitted {
  const source = z.strictObject({ path: z.string(), line: z.number(), quote: z.string() });
  const fields = z.tuple([
    z.object({ name: z.literal('answer'), value: z.string() }),
    z.object({ name: z.literal('sources'), value: z.array(source) }),
  ]);
  const [answer, sources] = z.object({ fields }).parse(JSON.parse(call.function.arguments)).fields;
  return { answer: answer.value, sources: sources.value };
}

function runTool(folder: DocumentFolder, call: ChatCompletionMessageFunctionToolCall): unknown {
  const given: unknown = JSON.parse(call.function.arguments);
  switch (call.function.name) {
    case 'list_files':
      return listFiles(folder);
    case 'search_text':
      return searchText(folder, z.strictObject({ query: z.string().min(1), max_results: z.number() }).parse(given));
    case 'read_file': {
      const range = z.strictObject({ path: z.string(), from_line: z.number().min(1), to_line: z.number() });
      return readLines(folder, range.parse(given));
    }
    default:
      throw new Error(`no tool ${call.function.name}`);
  }
}

function pathsOf(folder: DocumentFolder): string[] {
  const entries = readdirSync(folder.root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder.root, join(entry.parentPath, entry.name)))
    .sort();
}

function listFiles(folder: DocumentFolder): object {
  const files = pathsOf(folder).map((path) => ({ path, bytes: statSync(join(folder.root, path)).size }));
  return { files, total: files.length, truncated: false };
}

function searchText(folder: DocumentFolder, { query, max_results }: { query: string; max_results: number }): object {
  const words = query.toLowerCase().split(/\s+/);
  const paths = pathsOf(folder);
  const found = paths.flatMap((path) =>
    folder
      .read(path)
      .split('\n')
      .map((text, index) => ({ path, line: index + 1, text }))
      .map((match) => ({ match, count: words.filter((word) => match.text.toLowerCase().includes(word)).length }))
      .filter(({ count }) => count > 0),
  );
  const matches = found.sort((a, b) => b.count - a.count).map(({ match }) => match);
  const truncated = matches.length > max_results;
  return { matches: matches.slice(0, max_results), files_searched: paths.length, truncated };
}

function readLines(folder: DocumentFolder, range: { path: string; from_line: number; to_line: number }): object {
  const lines = folder.read(range.path).split('\n');
  const to_line = Math.min(range.to_line, lines.length);
  const text = lines.slice(range.from_line - 1, to_line).join('\n');
  return { ...range, to_line, total_lines: lines.length, text };
}
