/** The built-in `now`: the current time, which a model cannot know by itself. */
import { z } from 'zod';
import { executedTool } from './builtin-tool.ts';

/** `now`: answers with the current time. */
export const now = executedTool({
  name: 'now',
  kind: 'tool',
  description: 'Tells the current time, as ISO 8601 in a time zone and as milliseconds since 1970-01-01T00:00:00Z.',
  schema: z.object({
    timeZone: z
      .string()
      .refine(isTimeZone, { error: 'must be the IANA name of a time zone, such as "Europe/Berlin"' })
      .default('UTC')
      .describe('IANA name of a time zone, such as Europe/Berlin'),
  }),
  sideEffects: 'none',
  execute: ({ timeZone }) => {
    const epochMs = Date.now();
    return { iso: isoIn(timeZone, epochMs), epochMs };
  },
});

/** A bare offset such as "+02:00" is no name, though JavaScript takes it for a time zone. */
function isTimeZone(name: string): boolean {
  try {
    return /^[a-z]/i.test(name) && zoneFormat(name) !== null;
  } catch {
    return false;
  }
}

/** Throws a RangeError for a name that is none of a time zone. */
const zoneFormat = (timeZone: string): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });

/** The moment as local time of the zone with its offset from UTC: `2026-11-23T11:42:46.123+05:30`. */
function isoIn(timeZone: string, epochMs: number): string {
  // Such as "GMT+05:30"; some versions of ICU write UTC as "GMT" alone.
  const zone = zoneFormat(timeZone)
    .formatToParts(epochMs)
    .find(({ type }) => type === 'timeZoneName');
  const [offset = '+00:00', sign = '+', hours = 0, minutes = 0] = /([+-])(\d\d):(\d\d)$/.exec(zone?.value ?? '') ?? [];
  const offsetMinutes = Number(`${sign}1`) * (60 * Number(hours) + Number(minutes));
  return new Date(epochMs + 60_000 * offsetMinutes).toISOString().replace('Z', offset);
}
