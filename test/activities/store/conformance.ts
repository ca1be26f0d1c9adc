/** What every store must do, whatever its backend. Each backend's test file calls this with a way to open an empty store. */
import { describe, jest } from '@jest/globals';
import { testApp } from '../../support/app.ts';
import { describeAdmission } from './conformance/admission.ts';
import { describeAgentStatus } from './conformance/agent-status.ts';
import { describeAgentWork } from './conformance/agent-work.ts';
import { describeAgentWorkRaces } from './conformance/agent-work-races.ts';
import { describeApprovals } from './conformance/approvals.ts';
import { describeCalls } from './conformance/calls.ts';
import { describeChatEdges } from './conformance/chat-edges.ts';
import { describeChats } from './conformance/chats.ts';
import { describeChunks } from './conformance/chunks.ts';
import { describeClockAhead } from './conformance/clock-ahead.ts';
import { describeContext } from './conformance/context.ts';
import { describeDeliveries } from './conformance/deliveries.ts';
import { describeEndings } from './conformance/endings.ts';
import { describeHandover } from './conformance/handover.ts';
import { describeLists } from './conformance/lists.ts';
import { describePages } from './conformance/pages.ts';
import { describeProfiles } from './conformance/profiles.ts';
import { describeProviderOutages } from './conformance/provider-outages.ts';
import { describeLooks } from './conformance/reads.ts';
import { describeSizes } from './conformance/sizes.ts';
import { describeSupervision } from './conformance/supervision.ts';
import { describeSupervisorLease } from './conformance/supervisor-lease.ts';
import { describeTimes } from './conformance/times.ts';
import { describeTranscripts } from './conformance/transcripts.ts';
import { describeWebhooks } from './conformance/webhooks.ts';
import { type OpenStore, StoreBench } from './store-bench.ts';

/** Bounds a hang: some tests make thousands of transactions. */
const LONGEST_MS = 300_000;

export function describeStore(name: string, makeOpener: () => OpenStore): void {
  jest.setTimeout(LONGEST_MS);
  describe(`store on ${name}`, () => {
    const bench = new StoreBench(makeOpener, testApp([], { delegationPolicy: { profiles: ['tester'] } }));
    describeAdmission(bench);
    describeAgentStatus(bench);
    describeAgentWork(bench);
    describeAgentWorkRaces(bench);
    describeHandover(bench, makeOpener);
    describeProfiles(bench, makeOpener);
    describeCalls(bench);
    describeApprovals(bench);
    describeProviderOutages(bench);
    describeDeliveries(bench);
    describeEndings(bench);
    describeChats(bench);
    describeChatEdges(bench, makeOpener);
    describeChunks(bench);
    describeContext(bench);
    describeLooks(bench);
    describeTranscripts(bench);
    describeLists(bench);
    describePages(bench);
    describeSizes(bench);
    describeSupervision(bench);
    describeSupervisorLease(makeOpener);
    describeTimes(makeOpener);
    describeClockAhead(makeOpener);
    describeWebhooks(bench);
  });
}
