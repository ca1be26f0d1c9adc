/** Refusals as values, of requests and of calls that delegate. */
import type { FailureCode } from '../../../workflows/protocol/failures.ts';

/** Why something is refused, in words for whoever asked. Nothing was written for it. */
export interface Refusal {
  readonly code: FailureCode;
  readonly message: string;
}
