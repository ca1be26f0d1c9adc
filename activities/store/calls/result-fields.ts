/** Result fields as asked for; a malformed wish is a warning and no fields, never a refusal (T28). */
import { z } from 'zod';
import { type ResultFields, resultFieldsSchema } from '../../../workflows/protocol/enqueue.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { ProfileSnapshot } from '../../../workflows/protocol/profile.ts';

/** The result fields that a request asks for, or else those of the profile; null when there are none, or when they are malformed. */
export function parseResultFields(
  requested: JsonValue | undefined,
  snapshot: ProfileSnapshot,
): { fields: ResultFields | null; warnings: readonly string[] } {
  if (requested === undefined) return { fields: snapshot.profile.resultFields ?? null, warnings: [] };
  const parsed = resultFieldsSchema.safeParse(requested);
  if (parsed.success) return { fields: parsed.data, warnings: [] };
  return { fields: null, warnings: [`resultFields ignored: ${z.prettifyError(parsed.error)}`] };
}
