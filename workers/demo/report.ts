/** What the demo prints at the end: for a person as text, for a program as one JSON object. */
import { printFailure, turnFailure } from '../../client/cli/failure.ts';
import { deliverableText, duration, indent } from '../../client/cli/format.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { shownTokens } from '../../workflows/protocol/turn.ts';
import type { Answer, Check, CheckedSource } from './checks.ts';
import type { HistorySize } from './history.ts';
import type { CrashFacts } from './workers.ts';

/** All that is known of a demo that has run. */
export interface DemoResult {
  readonly view: TurnView;
  readonly question: string;
  readonly folder: string;
  /** The name of the model that answered. */
  readonly model: string;
  /** Whether that was the offline model. */
  readonly offline: boolean;
  readonly answer: Answer;
  readonly checks: readonly Check[];
  readonly history: HistorySize;
  readonly crash: CrashFacts | undefined;
  /** The link to the turn in Temporal's Web UI; undefined when the server has none. */
  readonly webUi: string | undefined;
  /** Where the demo keeps its data: the folder, the URL of the store without passwords, and the file in which the tools log. */
  readonly data: { readonly dir: string; readonly store: string; readonly effectsLog: string | undefined };
}

/** Whether the turn succeeded and every check holds. */
export const isGood = ({ view, checks }: DemoResult): boolean =>
  turnFailure(view) === undefined && checks.every((check) => check.ok);

/** The result as one line of JSON. */
export function resultJson(report: DemoResult): string {
  const { view, answer, crash, ...rest } = report;
  const failure = turnFailure(view);
  return JSON.stringify({
    ok: isGood(report),
    ...(failure === undefined ? {} : { error: failure }),
    agentId: view.agentId,
    agentTurnId: view.agentTurnId,
    status: view.status,
    answer: answer.answer ?? null,
    sources: answer.sources,
    ...rest,
    ...(crash === undefined ? {} : { crash: { killed: crash.killed, second: crash.second } }),
    turn: view,
  });
}

/** Prints the result for a person: answer, sources, checks, figures. */
export function printResult(report: DemoResult, say: (line: string) => void): void {
  const { view, answer, checks } = report;
  const failure = turnFailure(view);
  if (failure) printFailure({ err: say }, failure);
  const text = answer.answer ?? (view.deliverable ? deliverableText(view.deliverable) : '');
  for (const line of ['', 'answer', indent(text), ...sourceLines(answer.sources), '']) say(line);
  for (const { ok, what } of checks) say(`${ok ? 'ok     ' : 'FAILED '} ${what}`);
  say('');
  for (const line of figureLines(report)) say(line);
}

function sourceLines(sources: readonly CheckedSource[]): string[] {
  if (sources.length === 0) return [];
  const lines = sources.flatMap(({ path, line, quote, problem }) => [
    `  ${path}:${line}${problem === undefined ? '' : `  PROBLEM: ${problem}`}`,
    indent(quote, '    | '),
  ]);
  return ['', 'sources', ...lines];
}

function figureLines({ view, history, webUi, data, model }: DemoResult): string[] {
  const { usage, stepCount, acceptedAt, endedAt } = view;
  const took = endedAt === null ? '' : `, ${duration(endedAt - acceptedAt)}`;
  const size = ({ events, bytes }: HistorySize) =>
    `${events} events${bytes === null ? '' : `, ${(bytes / 1_024).toFixed(1)} KiB`}`;
  return [
    `turn:     ${view.agentTurnId}, ${stepCount} steps${took}`,
    `tokens:   ${shownTokens(usage.input, usage)} in (${usage.cached} cached), ${shownTokens(usage.output, usage)} out; ${model}`,
    `history:  ${size(history)}`,
    ...(webUi === undefined ? [] : [`Web UI:   ${webUi}`]),
    `data:     ${data.dir}, ${data.store}${data.effectsLog === undefined ? '' : `, log of the tools ${data.effectsLog}`}`,
  ];
}
