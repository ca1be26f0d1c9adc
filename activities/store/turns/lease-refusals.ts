/** Why a turn cannot start: then it ends alone, and not the transaction that would have leased it (T8). */
import { z } from 'zod';
import { deniedBy } from '../../../workflows/chat/input-policy.ts';
import { storedRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { CodedError, type FailureCode } from '../../../workflows/protocol/failures.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import type { Reader } from '../context.ts';
import { prepared } from '../prepared.ts';
import { decoded, type Json } from '../schema/json.ts';
import { type CardRow, contentOf } from '../schema/rows.ts';
import type { Turn } from '../schema/turn-states.ts';
import { sharedRefusal } from './chosen-profile.ts';
import type { CurrentProfile } from './profiles.ts';
import { findTurn } from './turns.ts';

/** A query for the instruction card of a turn. */
export const selectInstruction = ({ db }: Reader, cardId: string) => instructionOf(db, { cardId });

const instructionOf = prepared((db, card: { cardId: string }) =>
  db.selectFrom('cards').select(['type', 'content', 'token_count']).where('card_id', '=', card.cardId),
);

/** The instruction card of a turn, as far as its lease needs it. */
export type InstructionRow = Pick<CardRow, 'type' | 'content' | 'token_count'>;

/** What an instruction card holds. */
export const instructionSchema = z.object({ text: z.string() });

/** Why a turn cannot start. */
export interface LeaseRefusal {
  readonly code: FailureCode;
  readonly reason: string;
}

/**
 * The refusal of a turn whose rows cannot be read, which ends that one turn. Errors: those of the database, after which nothing more can be
 * written.
 */
export function unreadable(error: unknown): LeaseRefusal {
  const isOfRows = error instanceof SyntaxError || error instanceof TypeError || error instanceof CodedError;
  if (!isOfRows) throw error;
  return { code: 'internal_error', reason: `what the store holds of it cannot be read: ${error.message}` };
}

/** A request that was accepted before any profile was known may turn out to be for an agent that is named like its profile. */
export function sharedProblem({ agent_id: agentId }: Turn, profile: CurrentProfile | null): LeaseRefusal | null {
  const refused = profile && sharedRefusal(agentId, profile.snapshot.profile);
  return refused && { code: refused.code, reason: refused.message };
}

/** A turn that was to end with its parent's is not started when that has ended without success; null for all others. */
export async function parentProblem(
  reader: Reader,
  { on_parent_end, parent_agent_turn_id: parentId }: Turn,
): Promise<LeaseRefusal | null> {
  if (on_parent_end !== 'stop' || parentId === null) return null;
  const status = (await findTurn(reader, parentId))?.status ?? 'success';
  if (!isTerminal(status) || status === 'success' || status === 'partial') return null;
  return { code: 'canceled', reason: 'the turn that waited for it has ended' };
}

/** Why a row that somebody wrote by hand, or a program with a mistake, cannot be run; null when it can (T8). */
export function requestProblem(turn: Turn, card: InstructionRow | undefined): LeaseRefusal | null {
  const refused = (reason: string): LeaseRefusal => ({ code: 'invalid_request', reason });
  const cardId = turn.instruction_card_id;
  if (card?.type !== 'task.instruction') return refused(`its instruction card ${cardId} is not in the store`);
  if (!instructionSchema.safeParse(decodedOrNull(card.content)).success)
    return refused(`its instruction card ${cardId} has no text`);
  const { error } = storedRequestSchema.safeParse(decodedOrNull(turn.request));
  return error ? refused(`its stored request is malformed: ${z.prettifyError(error)}`) : null;
}

/** The value of a column; null when it is no JSON. */
export function decodedOrNull(json: Json<unknown>): unknown {
  try {
    return decoded(json);
  } catch {
    return null;
  }
}

/** Why the profile denies what is asked, before any model is (C4); null when it does not. */
export function inputProblem(profile: CurrentProfile | null, card: InstructionRow | undefined): LeaseRefusal | null {
  const policy = profile?.snapshot.profile.inputPolicy;
  if (!policy || !card) return null;
  const reason = deniedBy(policy, contentOf(card, 'task.instruction').text);
  return reason === null ? null : { code: 'policy_denied', reason };
}

/** Why a turn whose rows can be read cannot start; null when it can. */
export function refusal(
  profileName: string,
  profileKnown: boolean,
  missingBoxes: readonly string[],
): LeaseRefusal | null {
  if (!profileKnown) {
    return {
      code: 'profile_not_found',
      reason: `no profile named ${profileName} is registered; start a worker whose app defines it`,
    };
  }
  const [box] = missingBoxes;
  return box === undefined ? null : { code: 'box_unavailable', reason: `box ${box} does not exist` };
}
