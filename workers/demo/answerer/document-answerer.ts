/**
 * Answers a question about a folder without a language model: list, confirm, search, read, then quote.
 *
 * Invariants
 * 1. Every step is decided from the conversation alone.
 * 2. The answer is made only of literal quotes of what was read.
 */
import { type ChatRequest, forcedTool, toolNames } from '../../model-server/chat-request.ts';
import type { MessageAnswer, ToolCallAnswer } from '../../model-server/completion.ts';
import { type DocumentTurn, documentTurn, type Search, type SearchHit } from './document-turn.ts';
import { asksForOverview, questionIn } from './intent.ts';
import { type Keyword, keywordsOf, matchOf, searchTerms, synonymTerms, tellingOf, weighByRarity } from './keywords.ts';
import { windowsToRead } from './passages.ts';
import { chooseQuotes, openingQuotes, type Quote } from './quotes.ts';
import { stemsOf } from './stemming.ts';

const MAX_SEARCHES = 3;
const MAX_RESULTS = 60;
/**
 * How many matches are asked for when a person has narrowed the scope: the tool searches the whole folder, and many matches do not count
 * then.
 */
const MAX_RESULTS_IN_SCOPE = 200;
const OVERVIEW_LINES = 60;
/** What every answer of the offline model says of itself. */
export const OFFLINE_NOTICE = 'offline model: a weak rule-based stand-in, no language model';

/** Whether a request is a question about documents. It still is when only the report is left to offer, but this turn has read documents. */
export function isDocumentQuestion(request: ChatRequest): boolean {
  const offered = toolNames(request);
  if (offered.has('search_text') && offered.has('read_file')) return true;
  return documentTurn(request).called.has('search_text');
}

/** The next calls of a turn over documents, or its report. */
export function answerFromDocuments(request: ChatRequest): MessageAnswer {
  const turn = documentTurn(request);
  const offered = toolNames(request);
  const canRead = offered.has('search_text') && offered.has('read_file') && request.tool_choice !== 'none';
  if (canRead && forcedTool(request) === undefined && turn.confirmation.kind !== 'no') {
    const calls = nextCalls(turn, offered);
    if (calls.length > 0) return { kind: 'message', toolCalls: calls };
  }
  return report(request, turn);
}

function nextCalls(turn: DocumentTurn, offered: ReadonlySet<string>): readonly ToolCallAnswer[] {
  const { called } = turn;
  if (called.has('submit_result')) return [];
  if (offered.has('list_files') && !called.has('list_files')) return [{ name: 'list_files', arguments: {} }];
  if (offered.has('confirm_scope') && !called.has('confirm_scope')) {
    return [{ name: 'confirm_scope', arguments: { question: turn.question, plan: planOf(turn) } }];
  }
  if (called.has('read_file')) return [];
  const keywords = askedKeywords(turn);
  const query = nextQuery(keywords, turn);
  // The tool searches the whole folder; in a narrower scope many of its hits do not count.
  const max_results = scopeOf(turn).length > 0 ? MAX_RESULTS_IN_SCOPE : MAX_RESULTS;
  if (query !== undefined) return [{ name: 'search_text', arguments: { query, max_results } }];
  const windows = asksForOverview(questionIn(turn.question))
    ? overviewWindows(turn)
    : windowsToRead(questionIn(turn.question), keywords, hitsOf(turn));
  return windows.map((window) => ({ name: 'read_file', arguments: window }));
}

const askedKeywords = (turn: DocumentTurn): readonly Keyword[] => keywordsOf(questionIn(turn.question));

function planOf(turn: DocumentTurn): string {
  const words = tellingOf(askedKeywords(turn)).map((keyword) => keyword.word);
  const files = turn.total === 0 ? 'the folder' : turn.total === 1 ? 'the one file' : `all ${turn.total} files`;
  const what = words.length > 0 ? `Search ${files} for ${words.join(', ')}` : `Look through ${files}`;
  return `${what}, read around the best hits and quote them. A note that names a folder or a file narrows the search.`;
}

/**
 * The next words to search for: first all; then those not found yet, or the rarest where matches were cut off; then their synonyms.
 * Undefined when there is nothing left to search for.
 */
function nextQuery(keywords: readonly Keyword[], turn: DocumentTurn): string | undefined {
  const { searches } = turn;
  if (asksForOverview(questionIn(turn.question)) && turn.files.length > 0) return undefined;
  if (turn.failed.has('search_text') || searches.length >= MAX_SEARCHES) return undefined;
  if (searches.length === 0) return searchTerms(keywords) || undefined;
  const telling = tellingOf(keywords);
  const cutOff = searches.some((search) => search.truncated);
  const missing = cutOff ? telling.filter((keyword) => !isFound(keyword, searches)) : [];
  const synonyms = synonymTerms(telling);
  const queries = [
    missing.length > 0 ? searchTerms(missing) : '',
    cutOff ? searchTerms(rarestOf(telling, searches.slice(0, 1))) : '',
    synonyms === '' ? '' : `${searchTerms(telling)} ${synonyms}`,
  ];
  const asked = new Set(searches.map((search) => search.query));
  return queries.find((query) => query !== '' && !asked.has(query));
}

function rarestOf(keywords: readonly Keyword[], searches: readonly Search[]): readonly Keyword[] {
  const lines = searches.flatMap((search) => search.hits.map((hit) => hit.text));
  const byWeight = [...weighByRarity(keywords, lines)].sort((a, b) => b.weight - a.weight);
  return byWeight.slice(0, Math.ceil(byWeight.length / 2));
}

function isFound(keyword: Keyword, searches: readonly Search[]): boolean {
  return searches.some((search) => search.hits.some((hit) => matchOf(keyword, stemsOf(hit.text)) > 0));
}

/** The matches within the scope that a person set, each line once. */
function hitsOf(turn: DocumentTurn): readonly SearchHit[] {
  const scope = scopeOf(turn);
  const hits = new Map<string, SearchHit>();
  for (const hit of turn.searches.flatMap((search) => search.hits)) {
    if (scope.length === 0 || scope.some((prefix) => isWithin(hit.path, prefix))) {
      hits.set(`${hit.line}:${hit.path}`, hit);
    }
  }
  return [...hits.values()];
}

const isWithin = (path: string, prefix: string): boolean => path === prefix || path.startsWith(`${prefix}/`);

/** The paths that the note of a person names; empty for the whole folder. */
function scopeOf(turn: DocumentTurn): readonly string[] {
  if (turn.confirmation.kind !== 'yes') return [];
  const words = turn.confirmation.note.split(/[\s,;"'`()]+/).map((word) => word.replace(/^\.\/|[/.!?:*]+$/g, ''));
  // A path may be among the files that are not listed; whether a word is one is then judged by its form.
  const mayBePath = (word: string) => turn.listCutOff && /\/|\w\.[a-z]{1,5}$/i.test(word);
  return words.filter((word) => word !== '' && (turn.files.some((path) => isWithin(path, word)) || mayBePath(word)));
}

function overviewWindows(turn: DocumentTurn): readonly object[] {
  const scope = scopeOf(turn);
  const files = turn.files.filter((path) => scope.length === 0 || scope.some((prefix) => isWithin(path, prefix)));
  const depth = (path: string) => path.split('/').length;
  const readmes = files.filter((path) => /(?:^|\/)readme[^/]*$/i.test(path));
  const first = (readmes.length > 0 ? readmes : files.filter((path) => /\.(?:md|txt|rst)$/i.test(path))).sort(
    (a, b) => depth(a) - depth(b) || (a < b ? -1 : 1),
  )[0];
  return first === undefined ? [] : [{ path: first, from_line: 1, to_line: OVERVIEW_LINES }];
}

function report(request: ChatRequest, turn: DocumentTurn): MessageAnswer {
  const sources = turn.confirmation.kind === 'no' ? [] : quotesOf(turn);
  const answer = answerText(turn, sources);
  const canSubmit = toolNames(request).has('submit_result') && request.tool_choice !== 'none';
  // A report that was refused once would be refused again: the same conversation gives the same report.
  if (!canSubmit || turn.called.has('submit_result')) return { kind: 'message', content: answer };
  const fields = [
    { name: 'answer', value: answer },
    { name: 'sources', value: sources },
  ];
  return { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] };
}

function quotesOf(turn: DocumentTurn): readonly Quote[] {
  const keywords = askedKeywords(turn);
  if (asksForOverview(questionIn(turn.question))) return openingQuotes(turn.reads);
  return chooseQuotes(questionIn(turn.question), keywords, turn.reads, hitsOf(turn));
}

function answerText(turn: DocumentTurn, sources: readonly Quote[]): string {
  if (turn.confirmation.kind === 'no') {
    return `Not done: the person who was asked declined. (${OFFLINE_NOTICE})`;
  }
  const remarks = remarksOf(turn);
  if (sources.length === 0) {
    return [`The answer was not found in these documents (${OFFLINE_NOTICE}).`, ...remarks].join('\n\n');
  }
  const quotes = sources.map(({ path, line, quote }) => `${path}:${line}\n${quote}`);
  return [`Quotes from the documents (${OFFLINE_NOTICE}):`, ...quotes, ...remarks].join('\n\n');
}

function remarksOf(turn: DocumentTurn): readonly string[] {
  const { confirmation } = turn;
  const scope = scopeOf(turn);
  const remarks: string[] = [];
  if (confirmation.kind === 'unanswered') {
    const why =
      confirmation.errorCode === 'tool_timeout' ? 'Nobody confirmed the scope in time' : 'Nobody could be asked';
    remarks.push(`${why} (${confirmation.errorCode}), so the whole folder was searched.`);
  }
  if (confirmation.kind === 'yes' && confirmation.note !== '') {
    const searched =
      scope.length > 0 ? `only ${scope.join(', ')} was searched` : 'it names no path, so all was searched';
    remarks.push(`Note on the scope: ${searched}.`);
  }
  for (const tool of ['list_files', 'search_text', 'read_file']) {
    const code = turn.failed.get(tool);
    if (code !== undefined) remarks.push(`A call of ${tool} failed (${code}), so the search may be incomplete.`);
  }
  return remarks;
}
