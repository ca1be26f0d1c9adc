/** Values on the command line that need more than text. */
import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { chatIdSchema } from '../../workflows/protocol/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isUserId } from '../../workflows/protocol/ids.ts';
import { withoutTrailing } from '../trailing.ts';

const json = z.json();

const MAX_PORT = 65_535;
const MAX_PAGE = 10_000;

/** A port from 0 to 65,535; commander reports what is none. */
export function portNumber(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= MAX_PORT) return port;
  throw new InvalidArgumentError(`expected a port number from 0 to ${MAX_PORT}.`);
}

/** A number of seconds above 0; commander reports what is none. */
export function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('expected a number of seconds above 0.');
}

/** Rows of a page. */
export function pageSize(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= MAX_PAGE) return value;
  throw new InvalidArgumentError(`expected a whole number from 1 to ${MAX_PAGE}.`);
}

/** The `seq` of an event; 0 is before the first. */
export function sequence(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new InvalidArgumentError('expected a whole number from 0 on, the seq of an event.');
}

/** An http or https address, without a slash at its end; commander reports what is none. */
export function webAddress(text: string): string {
  if (/^https?:\/\/[^/]/.test(text) && URL.canParse(text)) return withoutTrailing(text, '/');
  throw new InvalidArgumentError('expected an address like http://127.0.0.1:8233.');
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time in the past: so long ago (`90m`, `24h`, `7d`), or a date that says its time zone; epoch ms. Commander reports what is neither. */
export function pastTime(text: string): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const at = count === undefined ? Date.parse(text) : Date.now() - Number(count) * (UNITS[unit] ?? 0);
  if (Number.isFinite(at)) return at;
  throw new InvalidArgumentError('expected how long ago, like 90m, 24h or 7d, or a date like 2026-01-31T00:00:00Z.');
}

/** The URL of a store; commander reports what is none. */
export function storeUrl(text: string): string {
  if (/^(sqlite:|postgres(ql)?:\/\/)./.test(text)) return text;
  const file = text.includes(':') ? '' : ` A file is named by sqlite:${text}.`;
  throw new InvalidArgumentError(`expected sqlite:PATH or postgres://....${file}`);
}

/** Who writes in a chat; commander reports what is no id. */
export function senderId(text: string): string {
  if (isUserId(text)) return text;
  throw new InvalidArgumentError('expected 1 to 128 of letters, digits, ". _ ~ -", starting with a letter or digit.');
}

/** The id of a chat; commander reports what is none. */
export function chatIdText(text: string): string {
  if (chatIdSchema.safeParse(text).success) return text;
  throw new InvalidArgumentError('expected 1 to 128 of letters, digits, ". _ -", starting with a letter or digit.');
}

/** Names between commas. */
export const nameList = (text: string): string[] => text.split(',').map((name) => name.trim());

/** Errors: `invalid_request` naming the option. */
export function jsonOf(option: string, text: string): z.infer<typeof json> {
  try {
    return json.parse(JSON.parse(text));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const hint = /^\s*["[{]/.test(text) ? '' : `; a text needs double quotes inside the shell quotes, e.g. '"done"'`;
    throw new CodedError('invalid_request', `${option} must be JSON (${reason})${hint}`);
  }
}

/** `KEY=VALUE` pairs. Errors: `invalid_request` naming the pair. */
export function metadataOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)] as const;
      throw new CodedError('invalid_request', `--metadata takes KEY=VALUE, got ${JSON.stringify(pair)}`);
    }),
  );
}

/** The option that says who answers, where only some may; empty where anybody may. */
export const byOption = ([first]: readonly string[]): string => (first === undefined ? '' : ` --by ${first}`);
