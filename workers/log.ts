/**
 * The log of a worker process: one line for each entry, whatever it is about, for people or as JSON.
 *
 * Invariants
 * 1. Whatever an entry holds, writing it does not fail.
 * 2. An error is said by its type, its message and those of its causes. Its stacks are left out unless the level is DEBUG or TRACE,
 *    so that an activity that is tried again adds a line and not a page.
 */
import { inspect } from 'node:util';
import { isNativeError } from 'node:util/types';
import type { LogLevel } from '@temporalio/common';
import { causesOf, describeError } from '../activities/failure.ts';
import { visible } from '../client/cli/visible.ts';
import type { LogFormat, LogThreshold } from './log-format.ts';

/** What an entry says. */
export interface LoggedEntry {
  readonly level: LogLevel;
  readonly message: string;
  readonly timestampNanos: bigint;
  readonly meta?: Readonly<Record<string | symbol, unknown>>;
}

/** Fields of Temporal's runtime that say nothing a person looks for. */
const NOISE = new Set([
  'sdkComponent',
  'taskToken',
  'namespace',
  'isLocal',
  'workflowRunId',
  'activityId',
  'spanContexts',
]);
const MOST_CHARACTERS = 2_000;

/** An entry as one line. */
export function logLine({ level, message, timestampNanos, meta = {} }: LoggedEntry, format: LogFormat): string {
  const time = new Date(Number(timestampNanos / 1_000_000n)).toISOString();
  const isDetailed = level === 'DEBUG' || level === 'TRACE';
  const fields = Object.entries(meta).map(([name, value]) => [name, fieldOf(value, isDetailed)] as const);
  if (format === 'json') return visible(JSON.stringify({ time, level, message, ...Object.fromEntries(fields) }));
  const told = fields.filter(([name]) => !NOISE.has(name)).map(([name, value]) => `${name}=${textOf(value)}`);
  return visible(`${time} ${level.padEnd(5)} ${[oneLine(message), ...told].join(' ')}`);
}

/** The levels of entries, the least important first. */
const LEVELS: readonly LogLevel[] = ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR'];

/** Whether an entry is important enough. */
const reaches = (level: LogLevel, least: LogLevel): boolean => LEVELS.indexOf(level) >= LEVELS.indexOf(least);

/** The level that a command is asked for; `--debug` asks for all. What tools say is shown where nothing is asked for. */
export const levelOf = ({
  logLevel,
  debug,
}: {
  readonly logLevel?: LogThreshold;
  readonly debug?: boolean;
}): LogLevel => (logLevel ?? (debug ? 'debug' : 'info')).toUpperCase() as LogLevel;

/** From which level on what is no tool's own line is shown: below warnings the runtime says much that nobody looks for. */
export const runtimeLevel = (level: LogLevel): LogLevel => (level === 'INFO' ? 'WARN' : level);

/** Whether an entry is shown in a log from `least` on; entries of tools are those of `context.logger`, which name their tool. */
export const isShown = ({ level, meta }: Pick<LoggedEntry, 'level' | 'meta'>, least: LogLevel): boolean =>
  reaches(level, meta?.sdkComponent === 'activity' && meta.tool !== undefined ? least : runtimeLevel(least));

/** Takes a line that a command says; it is information unless another level is named. */
export type Say = (line: string, level?: LogLevel) => void;

/** Says the lines of a command in the form of its log, those of `least` and more important. */
export const sayer =
  (write: (line: string) => void, least: LogLevel, format: LogFormat): Say =>
  (message, level = 'INFO') => {
    if (!reaches(level, least)) return;
    const timestampNanos = BigInt(Date.now()) * 1_000_000n;
    write(format === 'text' ? message : logLine({ level, message, timestampNanos }, format));
  };

/** The value of a field as JSON can hold it. A tool may log anything, and no entry may fail who writes it. */
function fieldOf(value: unknown, isDetailed: boolean): unknown {
  try {
    // Not `instanceof Error`: it may be of another realm.
    if (isNativeError(value)) return isDetailed ? `${errorText(value)} ${value.stack ?? ''}` : errorText(value);
    if (typeof value === 'bigint') return String(value);
    return isJson(value) ? value : inspect(value, { breakLength: Number.POSITIVE_INFINITY });
  } catch {
    return 'a value that cannot be shown';
  }
}

/** Whether JSON can be made of the value: not of a circle, and not where a bigint lies in it. */
function isJson(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return true;
  } catch {
    return false;
  }
}

/** The type and the message of an error, and of each error that caused it, those once that come again. */
const errorText = (error: Error): string =>
  [...new Set([error, ...causesOf(error)])]
    .map((cause) => {
      if (!isNativeError(cause)) return describeError(cause);
      const type = 'type' in cause && typeof cause.type === 'string' ? cause.type : cause.name;
      return `${type}: ${cause.message}`;
    })
    .join(', because of ');

function textOf(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  const line = oneLine(text);
  return /[\s"=]/.test(line) && typeof value === 'string' ? JSON.stringify(line) : line;
}

const LINE_END = /[\r\n]+/;

const oneLine = (text: string): string => {
  const line = text
    .split(LINE_END)
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .join(' ');
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}...` : line;
};
