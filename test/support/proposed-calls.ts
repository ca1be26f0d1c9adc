/** What becomes of the calls of a reply, as a step reads them. */
import { z } from 'zod';
import { defineTool } from '../../activities/app/app.ts';
import type { WireToolCall } from '../../activities/llm/model.ts';
import { type ProposalContext, type Proposals, readProposals } from '../../activities/llm/proposals.ts';
import type { StreamedReply } from '../../activities/llm/reply.ts';
import { NO_WORK } from '../../workflows/agent-state/effects.ts';
import { type ProfileInput, profileSchema } from '../../workflows/protocol/profile.ts';
import { testApp } from './app.ts';

export const TURN = '0190f3a0-0000-7000-8000-000000000001';

const app = testApp([
  defineTool({ name: 'add', description: 'adds', parameters: z.object({ n: z.any() }), execute: () => null }),
  defineTool({ name: 'look', description: 'looks', parameters: z.looseObject({}), execute: () => null }),
]);

/** Step 3 of a turn whose profile says no more than `profile`, and whose agent has no results yet. */
export const proposalContext = ({
  profile = {},
  ...more
}: Partial<Omit<ProposalContext, 'profile'>> & { profile?: Partial<ProfileInput> } = {}): ProposalContext => ({
  agentTurnId: TURN,
  stepIndex: 3,
  offered: new Set(['add', 'look', 'submit_result', 'read_result', 'update_plan', 'skill']),
  app,
  profile: profileSchema.parse({ name: 'tester', ...profile }),
  resultFields: null,
  agentId: 'alice',
  readResult: async () => null,
  readWake: async () => null,
  readWork: async () => ({ work: NO_WORK, nowMs: 1_000 }),
  summary: async () => null,
  delegated: async () => null,
  finalReport: false,
  truncated: null,
  ...more,
});

export const proposalsOf = ({ calls }: Pick<StreamedReply, 'calls'>): Promise<Proposals> =>
  readProposals(calls, proposalContext());

export const streamedCall = (name: string, args: unknown, id = 'p1'): WireToolCall => ({
  id,
  name,
  arguments: typeof args === 'string' ? args : JSON.stringify(args),
});

/** One call, alone in its message. */
export async function readOne(name: string, args: unknown, context: ProposalContext) {
  const { proposed, calls } = await readProposals([streamedCall(name, args)], context);
  return { proposed: proposed[0], call: calls[0], error: calls[0]?.result?.error };
}
