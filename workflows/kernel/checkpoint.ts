/**
 * What the steps of a turn have brought about, and the checkpoint before the last model call to which a rollback returns (K13).
 *
 * Invariants
 * 1. What users said since the checkpoint stays in view; every other card of the step goes, and its tokens with it.
 * 2. The parts of an answer that is being continued stay, because the model is asked to go on with them and not to begin anew.
 */
import type { ErrorKind, FinishedCall, SettledCall } from './calls.ts';
import type { ViewState } from './context.ts';
import type { SkillState } from './exposure.ts';
import { type Handle, indexAfter } from './handles.ts';

/** What a step may change and a rollback brings back. */
export interface Progress extends SkillState {
  /** The last message of the model; null before the first. */
  readonly lastThought: { readonly cardId: string; readonly hasText: boolean } | null;
  /** Whether the last batch of calls ran a tool of `mustEndWith` with success. */
  readonly requiredToolDone: boolean;
  /** The id of the call that wrote the plan as it stands; null when there is no plan. */
  readonly planCall: string | null;
}

/** The progress before a model call, and the last card in view at that time. */
export interface Checkpoint extends Progress {
  readonly seq: number;
}

/** The progress of the turn, and what a rollback needs. */
export interface RollbackState extends Progress {
  /** The ids of thoughts before the last one that are parts of the same answer, cut short by the output limit of the model (K11). */
  readonly answerParts: readonly string[];
  readonly checkpoint: Checkpoint;
  /** How many steps in a row were taken back, the last one included; 0 after a step that was kept. */
  readonly rollbacks: number;
  /**
   * The places of cards that were taken back and must be hidden in the store. Each model call asks for it again until one has been
   * answered, because a call without an answer may never have begun.
   */
  readonly toHide: readonly number[];
}

const NO_PROGRESS: Progress = { lastThought: null, requiredToolDone: false, planCall: null, skills: [] };

/** Before `start` nothing is done. A rollback before the first model call would return to the beginning of the box. */
export const NOTHING_DONE: RollbackState = {
  ...NO_PROGRESS,
  answerParts: [],
  checkpoint: { ...NO_PROGRESS, seq: 0 },
  rollbacks: 0,
  toHide: [],
};

/** A checkpoint of the turn as it stands. */
export const checkpointOf = (state: Progress & Pick<ViewState, 'handles'>): Checkpoint => ({
  ...progressOf(state),
  seq: state.handles.at(-1)?.[0] ?? 0,
});

/** The checkpoint for a conversation that begins with calls nobody answered: nothing was done before the message that made them. */
export function checkpointBeforeLastThought(handles: readonly Handle[]): Checkpoint {
  const thought = handles.findLast((handle) => handle[1] === 'assistant');
  return { ...NO_PROGRESS, seq: (thought?.[0] ?? 1) - 1 };
}

const progressOf = ({ lastThought, requiredToolDone, planCall, skills }: Progress): Progress => ({
  lastThought,
  requiredToolDone,
  planCall,
  skills,
});

/** The turn without its last step, and how many cards that takes out of view. */
export function withoutLastStep({ handles, checkpoint, rollbacks, toHide }: RollbackState & ViewState): {
  readonly change: Omit<RollbackState, 'answerParts' | 'checkpoint'> & Pick<ViewState, 'handles'>;
  readonly cards: number;
} {
  const kept = indexAfter(handles, checkpoint.seq);
  const step = handles.slice(kept);
  const gone = step.filter(([, role]) => role !== 'user').map(([seq]) => seq);
  const change = {
    ...progressOf(checkpoint),
    handles: handles.slice(0, kept).concat(step.filter(([, role]) => role === 'user')),
    toHide: [...toHide, ...gone],
    rollbacks: rollbacks + 1,
  };
  return { change, cards: gone.length };
}

/** Why the results of these calls take their step back; null when they do not. `more`: the kinds of errors the profile adds (K13). */
export function rollbackReason(calls: readonly FinishedCall[], more: readonly ErrorKind[] = []): string | null {
  const kinds: ReadonlySet<ErrorKind> = new Set(['fatal', 'user_interrupt', ...more]);
  const call = calls.find(({ result }) => {
    const kind = errorKindOf(result);
    return kind !== null && kinds.has(kind);
  });
  if (!call) return null;
  const { tool, result } = call;
  return result.errorKind === 'user_interrupt'
    ? `${tool} was interrupted by a person`
    : `${tool} failed (${result.errorCode ?? 'tool_failed'}); try another way`;
}

const errorKindOf = ({ errorKind, errorCode }: SettledCall): ErrorKind | null =>
  errorKind ?? (errorCode === 'governance_denied' ? 'governance_denied' : null);
