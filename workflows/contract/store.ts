/**
 * The store contract: what must hold whatever the backend (SQLite, PostgreSQL). It is several interfaces, each in the file of what it is
 * about, and whoever uses the store asks for those it needs.
 *
 * Invariants
 * 1. Each method is one transaction, idempotent by what it is keyed on; a second run returns the recorded outcome (T29).
 * 2. A method that takes a `Fence` and writes does so only while the head still carries that lease; else it throws
 *    CodedError('stale_epoch') and nothing is written (T5).
 * 3. Every event is inserted in the transaction whose fact it states.
 * 4. Any method may throw `store_unavailable`, `store_locked` or `store_corrupt`.
 */
import type { SummaryStore } from './agent-summary.ts';
import type { WakeStore, WorkStore } from './agent-work.ts';
import type { ApprovalStore } from './approvals.ts';
import type { Border } from './border.ts';
import type { CallStore } from './calls.ts';
import type { CardStore } from './cards.ts';
import type { ChatStore } from './chat.ts';
import type { ChunkStore } from './chunks.ts';
import type { ControlStore } from './control.ts';
import type { DelegationStore } from './delegation.ts';
import type { JournalStore } from './journal.ts';
import type { LeaseStore } from './lease.ts';
import type { ListStore } from './lists.ts';
import type { ProfileStore } from './profiles.ts';
import type { StepStore } from './steps.ts';
import type { SupervisorStore } from './supervision.ts';
import type { ReadStore } from './views.ts';
import type { WebhookStore } from './webhooks.ts';

/** The clock by which everything in the store is timed. */
export interface StoreClock {
  /** By how many ms the store's clock, which all deadlines follow, is ahead of this machine's; negative when it is behind. */
  clockAheadMs(): number;
}

/** What only a backend can do: tell what the clock shows and that something was committed, and close. */
export interface Backend extends StoreClock {
  /**
   * Resolves soon after any process committed something, at the latest after `timeoutMs`; it may resolve without a commit. One who waits
   * for turns to end says so by `only`: some backends then wake him for nothing else.
   */
  changed(timeoutMs: number, only?: 'turn_ended'): Promise<void>;
  /** Closes connections and files. What is under way goes on to its end; whoever waits for his turn is refused with `store_unavailable`. */
  close(): Promise<void>;
}

/** What a client uses: accept, report, answer, control, read. */
export interface ClientStore
  extends Pick<LeaseStore, 'accept' | 'leaseNext'>,
    Pick<CallStore, 'reportResult' | 'compareResult'>,
    Pick<ApprovalStore, 'answerApproval' | 'listApprovals'>,
    Pick<DelegationStore, 'settleDelegation'>,
    Omit<CardStore, 'readExtents'>,
    Pick<ChunkStore, 'readChunks'>,
    ControlStore,
    ChatStore,
    JournalStore,
    Pick<ProfileStore, 'listProfiles'>,
    WakeStore,
    SummaryStore,
    ReadStore,
    ListStore,
    Backend {
  /** The same store for a caller of whom everything is out of view that is not within the border; it is as if it were not there. */
  within(border: Border): ClientStore;
}

/** All of the store. */
export interface Store
  extends LeaseStore,
    StepStore,
    CallStore,
    ApprovalStore,
    DelegationStore,
    CardStore,
    ProfileStore,
    ControlStore,
    ChatStore,
    JournalStore,
    SupervisorStore,
    ReadStore,
    ListStore,
    ChunkStore,
    WebhookStore,
    WorkStore,
    WakeStore,
    SummaryStore,
    Pick<ClientStore, 'within'>,
    Backend {}
