/**
 * JSON columns: text that says by its type what it is JSON of.
 *
 * Invariant: a column is decoded where its value is needed and nowhere else. What cannot be read, because somebody wrote it by hand, so
 * fails for the one turn that needs it, and an ended turn or a queue beside it is none the worse (T8).
 */
import { storedJson } from '../../well-formed.ts';

declare const OF: unique symbol;

/** JSON text of a value of that type. */
export type Json<T> = string & { readonly [OF]: T };

/** The value of a column. It is trusted to be what the type says. Errors: SyntaxError when the text is no JSON. */
export const decoded = <T>(json: Json<T>): T => JSON.parse(json) as T;

/** The value of a column whose text, when it is no JSON, counts as something else: the end of a turn must not depend on it (T8). */
export function decodedOr<T>(json: Json<T>, otherwise: T): T {
  try {
    return decoded(json);
  } catch {
    return otherwise;
  }
}

/** A value as it is kept in a column. */
export const encoded = <T>(value: T): Json<T> => JSON.stringify(value) as Json<T>;

/** A value that holds texts of users, models or tools, as it is kept: in well-formed Unicode, for it is sent to models again. */
export const encodedText = <T>(value: T): Json<T> => storedJson(value) as Json<T>;
