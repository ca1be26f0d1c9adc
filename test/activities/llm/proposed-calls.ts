/** The calls of a reply, as a step reads them. */
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { type Proposals, readProposals } from '../../../activities/llm/proposals.ts';
import type { StreamedReply } from '../../../activities/llm/reply.ts';
import { testApp } from '../../support/app.ts';

const app = testApp([
  defineTool({ name: 'add', description: 'adds', parameters: z.object({ n: z.any() }), execute: () => null }),
  defineTool({ name: 'look', description: 'looks', parameters: z.looseObject({}), execute: () => null }),
]);

export const proposalsOf = ({ calls }: StreamedReply): Proposals =>
  readProposals(calls, {
    agentTurnId: '0190f3a0-0000-7000-8000-000000000001',
    stepIndex: 1,
    offered: new Set(['add', 'look', 'submit_result', 'read_result', 'update_plan', 'skill']),
    app,
    resultFields: null,
  });
