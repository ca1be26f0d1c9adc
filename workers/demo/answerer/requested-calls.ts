/**
 * The calls that a request writes out as `call TOOL {json}`, so that a developer can exercise tools without a model.
 *
 * Invariants
 * 1. A request is carried out whole or not at all: where one of its calls is not understood, none is made.
 * 2. The JSON goes on the wire as it was written.
 */
import { nearest } from '../../../activities/app/nearest.ts';
import type { ToolCallAnswer } from '../../model-server/completion.ts';

/** How a call is written. */
export const CALL_SYNTAX = 'call TOOL {"argument": "value"}';

/** What a request asks for: calls, none where it writes none out, or what is wrong with how it writes them. */
export type RequestedCalls =
  | { readonly kind: 'calls'; readonly calls: readonly ToolCallAnswer[] }
  | { readonly kind: 'misspelt'; readonly problem: string };

const CALL = /\bcall\s+([^\s{]+)\s*(?=\{)/gi;
/** A request that begins like a call is meant as one. */
const BEGINS_LIKE_A_CALL = /^\W*call\s+([\w-]+)/i;

/** The calls that a text asks for, of the tools that are offered. */
export function requestedCalls(text: string, offered: ReadonlySet<string>): RequestedCalls {
  const calls: ToolCallAnswer[] = [];
  let behind = 0;
  for (const match of text.matchAll(CALL)) {
    // What looks like a call inside the arguments of one is text.
    if (match.index < behind) continue;
    const [written, name = ''] = match;
    const start = match.index + written.length;
    if (!offered.has(name)) return misspelt(noTool(name, offered), offered);
    const json = objectAt(text, start);
    if (json === undefined) return misspelt(`what follows "call ${name}" does not parse as a JSON object`, offered);
    calls.push({ name, arguments: json });
    behind = start + json.length;
  }
  const [, begun] = BEGINS_LIKE_A_CALL.exec(text) ?? [];
  if (calls.length > 0 || begun === undefined) return { kind: 'calls', calls };
  const problem = offered.has(begun) ? `no JSON object follows "call ${begun}"` : noTool(begun, offered);
  return misspelt(problem, offered);
}

function noTool(name: string, offered: ReadonlySet<string>): string {
  const meant = nearest(name, offered);
  return `there is no tool ${name}${meant === undefined ? '' : `, did you mean ${meant}?`}`;
}

function misspelt(problem: string, offered: ReadonlySet<string>): RequestedCalls {
  const names = offered.size === 0 ? 'none' : [...offered].join(', ');
  return { kind: 'misspelt', problem: `${problem}\nTools: ${names}. Write: ${CALL_SYNTAX}` };
}

/** The JSON object that begins here: the shortest stretch up to a closing brace that parses. */
function objectAt(text: string, start: number): string | undefined {
  for (let end = text.indexOf('}', start); end !== -1; end = text.indexOf('}', end + 1)) {
    const json = text.slice(start, end + 1);
    try {
      JSON.parse(json);
      return json;
    } catch {
      // This brace stands inside the object; the next one may close it.
    }
  }
  return undefined;
}
