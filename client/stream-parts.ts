/**
 * What a reader of a turn's stream gets, and the cursor by which one that was interrupted goes on.
 *
 * A cursor says which event was handled last, how far the chunks were read, and how much of the answer that is being written was passed on, with
 * a digest of that text. So a reader can go on from the chunks and, when they are gone, from the thought, and sees when the answer became
 * another one.
 */
import type { ApprovalEvent } from '../workflows/contract/events.ts';
import type { ProviderOutage } from '../workflows/contract/steps.ts';
import type { ResultStatus, ToolError } from '../workflows/protocol/cards.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { JsonValue } from '../workflows/protocol/json.ts';
import type { Deliverable, TerminalStatus } from '../workflows/protocol/turn.ts';

/** A call of a step, as the model wrote it. */
export interface StreamedCall {
  readonly callId: string;
  readonly tool: string;
  /** JSON, if the model wrote it well. */
  readonly arguments: string;
}

/** What a part of a stream says. */
export type StreamBody =
  /** The model goes on with the text of the step. */
  | { readonly type: 'text'; readonly stepIndex: number; readonly delta: string }
  /** The model thinks before it answers; only while the step is open, and where its provider tells. */
  | { readonly type: 'reasoning'; readonly stepIndex: number; readonly delta: string }
  /** The model goes on with the arguments of the call with that place in its answer, from 0; only while the step is open. */
  | {
      readonly type: 'call_delta';
      readonly stepIndex: number;
      readonly index: number;
      readonly tool: string;
      readonly delta: string;
    }
  /** All that was passed on of the step's answer is void: the model was asked again, or the step was given up. */
  | { readonly type: 'retracted'; readonly stepIndex: number }
  /** The step is committed: its text is what was passed on since its beginning, or the last retraction, and these are its calls. */
  | {
      readonly type: 'step';
      readonly stepIndex: number;
      readonly calls: readonly StreamedCall[];
      /** Why the model, or its content filter, refused to answer. */
      readonly refusal?: string;
    }
  /** How far a tool says it is. */
  | { readonly type: 'progress'; readonly callId: string; readonly tool: string; readonly progress: JsonValue }
  /** The call waits for a result from outside until `deadline`, epoch ms. */
  | { readonly type: 'waiting'; readonly callId: string; readonly tool: string; readonly deadline: number }
  | {
      readonly type: 'result';
      readonly callId: string;
      readonly tool: string;
      readonly status: ResultStatus;
      readonly result?: JsonValue;
      readonly error?: ToolError;
    }
  /** People are asked, have answered, or have not (K7, K9). */
  | ({ readonly type: 'approval' } & ApprovalEvent['payload'])
  /** The provider has failed the model call of the step, which is tried again (W14). */
  | ({ readonly type: 'provider'; readonly stepIndex: number } & Pick<ProviderOutage, 'code' | 'message' | 'nextTryAt'>)
  /** The turn has ended; nothing follows. */
  | {
      readonly type: 'end';
      readonly status: TerminalStatus;
      readonly errorCode: string | null;
      readonly deliverable: Deliverable;
    };

/** A part of a turn's stream. */
export type StreamPart = StreamBody & {
  /** A reader that comes back with it gets what follows this part, and nothing of what came before. */
  readonly cursor: string;
};

/** How far a reader has come. */
export interface StreamPlace {
  /** The event that was handled last; 0 before the first. */
  readonly seq: number;
  /** The chunk that was read last; 0 before the first. */
  readonly chunk: number;
  /** The step whose answer is passed on; 0 before the first. */
  readonly step: number;
  /** The attempt at it; 0 before its first chunk. */
  readonly attempt: number;
  /** How much of its text was passed on, in UTF-16 code units. */
  readonly chars: number;
  /** A digest of that text. */
  readonly digest: number;
  /** 1 when anything of the step was passed on that a retraction would make void; 0 otherwise. */
  readonly shown: number;
}

/** The digest of an empty text: the basis of FNV-1a. */
export const NO_TEXT_DIGEST = 0x811c9dc5;

/** The place before the first part. */
export const FIRST_PLACE: StreamPlace = {
  seq: 0,
  chunk: 0,
  step: 0,
  attempt: 0,
  chars: 0,
  digest: NO_TEXT_DIGEST,
  shown: 0,
};

/** The digest of a text that goes on: FNV-1a over its code units, 32 bits. */
export function textDigest(text: string, before = NO_TEXT_DIGEST): number {
  let digest = before;
  for (let index = 0; index < text.length; index += 1) {
    digest = Math.imul(digest ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return digest;
}

const FIELDS = ['seq', 'chunk', 'step', 'attempt', 'chars', 'digest', 'shown'] as const;

/** The cursor of a place. */
export const cursorOf = (place: StreamPlace): string => FIELDS.map((field) => place[field].toString(36)).join('.');

/** The place of a cursor. Errors: `invalid_request` for a text that is none. */
export function placeOfCursor(cursor: string): StreamPlace {
  const fields = cursor
    .split('.')
    .map((field) => (/^[\da-z]{1,11}$/.test(field) ? Number.parseInt(field, 36) : Number.NaN));
  const [seq, chunk, step, attempt, chars, digest, shown] = fields;
  if (fields.length === FIELDS.length && fields.every(Number.isSafeInteger)) {
    return { seq, chunk, step, attempt, chars, digest, shown } as StreamPlace;
  }
  throw new CodedError(
    'invalid_request',
    `${JSON.stringify(cursor.slice(0, 100))} is no cursor of a stream: pass the "cursor" of the last part that was handled`,
  );
}
