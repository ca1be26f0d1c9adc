/**
 * Which of a turn's attempts acts. Numbers decide it and no clock, for the server's may be set back between two attempts.
 *
 * Invariants
 * 1. An attempt that has acted, and in whose place another one has, never acts again.
 * 2. One that comes before the acting one is refused: of the same run, when its activity was scheduled before; of the same activity, when
 *    its number is lower. A reset of an activity begins to count again, so the first attempt after one acts in place of any.
 */
import type { ActivityAttempt } from '../../../workflows/protocol/turn.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';

/** Who acts for an open turn: the last run of its workflow, in it the last activity, and of that the last attempt; before them who has. */
export interface Acting {
  readonly runs: readonly string[];
  readonly activity: number;
  readonly attempts: readonly (readonly [attempt: number, scheduledAt: number])[];
}

/** Of runs and of attempts so many are remembered: more than a turn has while a process stands still. */
const REMEMBERED = 100;

/** Whether the attempt comes before that one of the same run. */
const comesBefore = (
  { activity, attempt, afterReset = false }: ActivityAttempt,
  other: Pick<ActivityAttempt, 'activity' | 'attempt'>,
): boolean => (activity === other.activity ? attempt < other.attempt && !afterReset : activity < other.activity);

/** Whether another attempt acts, and this one may not. */
export function isShutOut(acting: Json<Acting> | null, own: ActivityAttempt): boolean {
  if (acting === null) return false;
  const { runs, activity, attempts } = decoded(acting);
  if (runs.at(-1) !== own.run) return runs.includes(own.run);
  const last = attempts.at(-1);
  if (last === undefined || (activity === own.activity && isSame(last, own))) return false;
  if (comesBefore(own, { activity, attempt: last[0] })) return true;
  return activity === own.activity && attempts.some((each) => isSame(each, own));
}

const isSame = ([attempt, scheduledAt]: Acting['attempts'][number], own: ActivityAttempt): boolean =>
  attempt === own.attempt && scheduledAt === own.scheduledAt;

/** Who acts once this attempt does; null when it is the one who does. */
export function actingNow(before: Json<Acting> | null, own: ActivityAttempt): Json<Acting> | null {
  const { runs, activity, attempts } = before === null ? NOBODY : decoded(before);
  const isOfRun = runs.at(-1) === own.run;
  const ofActivity = isOfRun && activity === own.activity ? attempts : [];
  const last = ofActivity.at(-1);
  if (last && isSame(last, own)) return null;
  return encoded({
    runs: isOfRun ? runs : [...runs, own.run].slice(-REMEMBERED),
    activity: own.activity,
    attempts: [...ofActivity, [own.attempt, own.scheduledAt] as const].slice(-REMEMBERED),
  });
}

const NOBODY: Acting = { runs: [], activity: 0, attempts: [] };
