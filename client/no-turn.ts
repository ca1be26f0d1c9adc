/** What is said of a turn that is not there. */
import { CodedError } from '../workflows/protocol/failures.ts';
import { commandLine } from './command-line.ts';

/** The error for a turn that the store does not have. */
export const noTurn = (agentTurnId: string): CodedError =>
  new CodedError('turn_not_found', `no turn ${agentTurnId} in this store`, {
    cure: `"${commandLine('turns ls')}" shows those it has.`,
  });
