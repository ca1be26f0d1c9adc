/** The result fields of a turn (T28). */
import { type EnqueueRequest, type ResultFields, requestedFieldsSchema } from '../../../workflows/protocol/enqueue.ts';
import type { ProfileSnapshot } from '../../../workflows/protocol/profile.ts';

/**
 * The result fields that a request asks for, or else those of the profile; null when there are none. A row that was written by hand gets the
 * defaults of the schema; one whose fields are malformed is not leased.
 */
export const resultFieldsOf = (
  { resultFields }: Pick<EnqueueRequest, 'resultFields'>,
  { profile }: ProfileSnapshot,
): ResultFields | null =>
  resultFields === undefined ? (profile.resultFields ?? null) : requestedFieldsSchema.parse(resultFields);
