/** Why a request is refused, or a call that delegates. */
import type { FailureCode } from '../../../workflows/protocol/failures.ts';

/** A refusal as a value: nothing was written, and the words are for whoever asked. */
export interface Refusal {
  readonly code: FailureCode;
  readonly message: string;
}
