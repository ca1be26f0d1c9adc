/**
 * The store as a caller with a border has it: of everything that it does not see, each method says what it says of something that is not there.
 *
 * Invariant: every method of a client's store is here, and checks the ids that it is given or hands the border on: one that is forgotten does
 * not compile.
 */
import { LRUCache } from 'lru-cache';
import type { NewTrigger, WakeDelivery } from '../../workflows/contract/agent-work.ts';
import { agentIdFor, type Border, mayName, narrowed, seesAll } from '../../workflows/contract/border.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { ToolResultReport } from '../../workflows/protocol/tool-result.ts';
import type { Named } from './reads/border.ts';
import { agentNotFound } from './turns/roster.ts';

/** What is behind a border: the store, which sees all, and the answer to what a border leaves in view. */
export interface Unbordered extends Omit<ClientStore, 'within'> {
  sees(border: Border, named: Named): Promise<boolean>;
}

/** How many ids are remembered that are in view: none of them ever leaves it. */
const MOST_REMEMBERED = 1_000;

/** The ids that a caller sees. */
class View {
  readonly #store: Unbordered;
  readonly #border: Border;
  readonly #seen = new LRUCache<string, true>({ max: MOST_REMEMBERED });

  constructor(store: Unbordered, border: Border) {
    this.#store = store;
    this.#border = border;
  }

  /** The id of the agent that the caller calls so. */
  idOf(name: string): string {
    return agentIdFor(this.#border.tenant, name);
  }

  /** A query with the id of the agent that it names. */
  query<Q extends object | undefined>(query: Q): Q {
    const named = (query ?? {}) as { readonly agentId?: string; readonly of?: string };
    return {
      ...query,
      ...(named.agentId === undefined ? {} : { agentId: this.idOf(named.agentId) }),
      ...(named.of === undefined ? {} : { of: this.idOf(named.of) }),
    } as Q;
  }

  async has(named: Named): Promise<boolean> {
    if (seesAll(this.#border)) return true;
    const key = JSON.stringify(named);
    if (this.#seen.get(key)) return true;
    const isSeen = await this.#store.sees(this.#border, named);
    if (isSeen) this.#seen.set(key, true);
    return isSeen;
  }

  /** Whether the agent is in view. One that is not there may be, if the caller could make it. Errors: `agent_not_found` for all others. */
  async hasAgent(agentId: string): Promise<boolean> {
    if (await this.has({ agentId })) return true;
    if (mayName(this.#border, agentId)) return false;
    throw agentNotFound(agentId);
  }

  /** A method about an agent, which it is told first; `unknown` answers for one that is out of view. */
  agent<Rest extends unknown[], R>(method: (agentId: string, ...rest: Rest) => Promise<R>, unknown: Answer<R>) {
    return async (name: string, ...rest: Rest): Promise<R> => {
      const agentId = this.idOf(name);
      return (await this.hasAgent(agentId)) ? method(agentId, ...rest) : unknown(agentId);
    };
  }

  /** A method about a turn, which it is told first; `unknown` answers for one that is out of view. */
  turn<Rest extends unknown[], R>(method: (agentTurnId: string, ...rest: Rest) => Promise<R>, unknown: Answer<R>) {
    return async (agentTurnId: string, ...rest: Rest): Promise<R> =>
      (await this.has({ agentTurnId })) ? method(agentTurnId, ...rest) : unknown(agentTurnId);
  }
}

type Answer<R> = (id: string) => R;

const nothing = () => null;
const none = () => [];
const no = () => false;
const noAgent = (agentId: string): never => {
  throw agentNotFound(agentId);
};
const unknown = () => ({ ack: 'unknown' }) as const;
const unknownTurn = () => ({ ack: 'unknown', handover: null }) as const;

/** The store within a border. */
export const bordered = (store: Unbordered, border: Border): ClientStore => {
  const view = new View(store, border);
  return {
    ...ofTurns(store, view, border),
    ...ofAgents(store, view, border),
    ...ofCards(store, view, border),
    ...ofChats(store, view, border),
    ...ofOperators(store, border),
    listProfiles: async () => {
      const { profiles, anyProfile } = border;
      const all = await store.listProfiles();
      return profiles ? all.filter(({ name }) => profiles.includes(name)) : anyProfile ? all : [];
    },
    // What tells nothing of anybody: the clock, and that something has changed. The token of a trigger is enough by itself.
    clockAheadMs: () => store.clockAheadMs(),
    changed: (timeoutMs, only) => store.changed(timeoutMs, only),
    fireTrigger: (tokenHash, delivery) => store.fireTrigger(tokenHash, delivery),
    close: () => store.close(),
    within: (inner) => bordered(store, narrowed(border, inner)),
  };
};

const ofTurns = (store: Unbordered, view: View, border: Border) => ({
  accept: (...[input]: Parameters<ClientStore['accept']>) => store.accept(view.query(input), border),
  getTurn: view.turn(store.getTurn, nothing),
  getTurnStatus: view.turn(store.getTurnStatus, nothing),
  readTranscript: view.turn(store.readTranscript, nothing),
  listEdges: view.turn(store.listEdges, none),
  readChunks: view.turn(store.readChunks, none),
  stopTurn: view.turn(store.stopTurn, unknownTurn),
  breakOffTurn: view.turn(store.breakOffTurn, unknownTurn),
  steerTurn: view.turn(
    (agentTurnId, text: string, key?: string) => store.steerTurn(agentTurnId, text, key, border),
    unknown,
  ),
  setBudgets: view.turn(store.setBudgets, nothing),
  reportResult: view.turn(
    (agentTurnId, report: ToolResultReport) => store.reportResult(agentTurnId, report, border),
    () => ({ ack: 'unknown', wake: false }) as const,
  ),
  compareResult: view.turn(
    (agentTurnId, report: ToolResultReport) => store.compareResult(agentTurnId, report, border),
    () => 'none' as const,
  ),
  answerApproval: view.turn(store.answerApproval, unknown),
  settleDelegation: view.turn(store.settleDelegation, nothing),
  readEvents: async (asked: Parameters<ClientStore['readEvents']>[0]) => {
    const filter = view.query(asked);
    const { agentId, agentTurnId } = filter;
    const isSeen = agentTurnId === undefined ? view.hasAgent(agentId) : view.has({ agentTurnId });
    return (await isSeen) ? store.readEvents(filter) : [];
  },
  listApprovals: (...[filter]: Parameters<ClientStore['listApprovals']>) =>
    store.listApprovals(view.query(filter), border),
  findTurns: (...[query]: Parameters<ClientStore['findTurns']>) => store.findTurns(view.query(query), border),
  spending: (...[query]: Parameters<ClientStore['spending']>) => store.spending(query, border),
  listInbox: (...[query]: Parameters<ClientStore['listInbox']>) => store.listInbox(view.query(query), border),
});

const ofAgents = (store: Unbordered, view: View, border: Border) => ({
  leaseNext: view.agent(store.leaseNext, (agentId) => ({ agentId, next: null, more: false, settlements: [] })),
  listTurns: view.agent(store.listTurns, none),
  getAgent: view.agent(store.getAgent, nothing),
  agentSummary: view.agent(store.agentSummary, nothing),
  rebuildAgent: view.agent(store.rebuildAgent, nothing),
  setLifecycle: view.agent(store.setLifecycle, noAgent),
  listWorkItems: view.agent(store.listWorkItems, none),
  listWaits: view.agent(store.listWaits, none),
  listTimers: view.agent(store.listTimers, none),
  cancelTimer: view.agent(store.cancelTimer, no),
  listTriggers: view.agent(store.listTriggers, none),
  createTrigger: view.agent((agentId, trigger: NewTrigger) => store.createTrigger(agentId, trigger, border), noAgent),
  revokeTrigger: view.agent(store.revokeTrigger, no),
  wakeAgent: view.agent((agentId, delivery: WakeDelivery) => store.wakeAgent(agentId, delivery, border), noAgent),
  listAgents: (...[page]: Parameters<ClientStore['listAgents']>) => store.listAgents(page, border),
  countAgents: (...[filter]: Parameters<ClientStore['countAgents']>) => store.countAgents(filter, border),
});

const ofCards = (store: Unbordered, view: View, { tenant = null }: Border) => ({
  writeInstructionCard: (text: string) => store.writeInstructionCard(text, tenant),
  writeOutputCard: (...[value]: Parameters<ClientStore['writeOutputCard']>) => store.writeOutputCard(value, tenant),
  writeContextBox: (texts: readonly string[]) => store.writeContextBox(texts, tenant),
  replaceOutputBox: view.agent(async (agentId, expectedBoxId: string, cardIds: readonly string[]) => {
    for (const cardId of cardIds)
      if (!(await view.has({ cardId })))
        throw new CodedError('box_unavailable', `there is no card ${cardId} to put into the new box`);
    return store.replaceOutputBox(agentId, expectedBoxId, cardIds);
  }, noAgent),
  findBox: async (boxId: string) => ((await view.has({ boxId })) ? store.findBox(boxId) : null),
  readBox: async (...[boxId, all, page]: Parameters<ClientStore['readBox']>) =>
    (await view.has({ boxId })) ? store.readBox(boxId, all, page) : [],
  readCards: async (cardIds: readonly string[]) => {
    const inView: string[] = [];
    for (const cardId of cardIds) if (await view.has({ cardId })) inView.push(cardId);
    return inView.length === 0 ? [] : store.readCards(inView);
  },
});

const ofChats = (store: Unbordered, view: View, border: Border) => ({
  sendMessage: (...[input]: Parameters<ClientStore['sendMessage']>) => store.sendMessage(view.query(input), border),
  listMessages: view.agent(store.listMessages, none),
  getSession: view.agent(store.getSession, nothing),
  listSessions: (...[page]: Parameters<ClientStore['listSessions']>) => store.listSessions(view.query(page), border),
  readJournal: view.agent(store.readJournal, () => ({ lines: [], through: 0, last: 0 })),
});

/** What is for those alone who see everything. */
function ofOperators(store: Unbordered, border: Border) {
  const demand = (): void => {
    if (!seesAll(border)) throw new CodedError('permission_denied', 'this is for callers who see the whole store');
  };
  return {
    restoreSession: async (...[session]: Parameters<ClientStore['restoreSession']>) => {
      demand();
      return store.restoreSession(session);
    },
    identity: () => store.identity(),
    violations: async (limit?: number) => {
      demand();
      return store.violations(limit);
    },
    violationPages: () => {
      demand();
      return store.violationPages();
    },
  };
}
