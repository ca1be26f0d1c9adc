/** One turn of the bench's work as a caller makes it: ours through the client, and the same calls on the bare workflow. */
import type { AgentClient } from '../client/agent-client.ts';
import type { TurnHandle } from '../client/api.ts';
import type { TemporalClient } from '../client/connect.ts';
import type { floorTurn } from './floor/workflow.ts';
import { FLOOR_QUEUE, instructionOf, PROFILE, type Work } from './workload.ts';

const TURN_MS = 120_000;

/** What a caller needs to have. */
export interface Access {
  readonly temporal: TemporalClient;
  readonly client: AgentClient;
}

export const enqueue = ({ client }: Access, agentId: string, work: Work): Promise<TurnHandle> =>
  client.agent(agentId).enqueue({ instruction: instructionOf(work), profile: PROFILE });

/** One turn, from enqueue to its result; anything but success is an error of the bench. */
export async function runTurn(access: Access, agentId: string, work: Work): Promise<TurnHandle> {
  const turn = await enqueue(access, agentId, work);
  await succeeded(turn);
  return turn;
}

export async function succeeded(turn: TurnHandle): Promise<void> {
  const { status, reason } = await turn.result({ timeoutMs: TURN_MS });
  if (status !== 'success') throw new Error(`turn ${turn.id} ended ${status}: ${reason}`);
}

/** The same work on the bare workflow, until its result is here. Returns its workflow id. */
export async function runFloor({ temporal }: Access, work: Work): Promise<string> {
  const workflowId = `floor/${crypto.randomUUID()}`;
  await temporal.client.workflow.execute<typeof floorTurn>('floorTurn', {
    workflowId,
    taskQueue: FLOOR_QUEUE,
    workflowExecutionTimeout: TURN_MS,
    args: [instructionOf(work)],
  });
  return workflowId;
}
