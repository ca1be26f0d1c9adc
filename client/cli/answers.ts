/** The commands that answer what waits for somebody outside: said in one way, wherever such a thing is shown. */
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { commandLine } from '../command-line.ts';
import { byOption } from './arguments.ts';

/** Something that waits for an answer. */
export interface Waiting {
  /** `approval`: a call that needs it. `budget`: a larger budget. `result`: the result of a tool that suspends. */
  readonly kind: 'approval' | 'budget' | 'result';
  readonly agentTurnId: string;
  readonly callId: string;
  /** Who may answer; empty when anybody may. */
  readonly approvers?: readonly string[];
  /** The arguments as the model wrote them; null or absent where they are not known. */
  readonly written?: JsonObject | null;
}

/** The commands that answer it, the most likely one first. */
export function answerCommands({ kind, callId, agentTurnId, approvers = [], written = null }: Waiting): string[] {
  if (kind === 'result')
    return [
      commandLine(`tool-result ${agentTurnId} ${callId} --result '"words for the model, or any JSON"'`),
      commandLine(`tool-result ${agentTurnId} ${callId} --error 'why there is none'`),
    ];
  const approve = commandLine(`approve ${callId} --turn ${agentTurnId}${byOption(approvers)}`);
  if (kind === 'budget') return [`${approve} --budgets '{"maxSteps":100}'`, `${approve} --deny`];
  return [
    approve,
    `${approve} --arguments '${written === null ? '{...}' : JSON.stringify(written)}'`,
    `${approve} --deny --reason 'words for the model'`,
  ];
}
