/**
 * A client without our SDK: it gives a request to the acceptor of an agent, or to a turn that the agent runs, and hears only that the
 * Temporal server has it. Each request has a key, so that its turn is known and repeating it is safe.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { turnIdForKey } from '../../activities/ids.ts';
import type { AgentClient } from '../../client/agent-client.ts';
import { enqueueSignal } from '../../workflows/messages/messages.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { agentWorkflowId, CONTROL_QUEUE, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { Ledger } from './ledger.ts';
import { codeOf, patiently } from './patience.ts';
import type { Random } from './random.ts';
import type { Tail } from './tail.ts';

const CALL_MS = 10_000;

export interface ForeignDeps {
  readonly client: AgentClient;
  readonly temporal: Client;
  readonly ledger: Ledger;
  readonly tail: Tail;
}

export type ForeignInput = EnqueueInput & { readonly instruction: string; readonly idempotencyKey: string };

/** `both`: by our own client at the same time; `running`: to a turn that runs, where there is one. */
const WAYS = { once: 4, twice: 2, both: 2, running: 6 };

export class Foreign {
  readonly #deps: ForeignDeps;

  constructor(deps: ForeignDeps) {
    this.#deps = deps;
  }

  async send(agentId: string, request: ForeignInput, random: Random): Promise<void> {
    const way = random.weighted(WAYS);
    const repeated = random.chance(0.3);
    if (way === 'running') {
      const taken = await this.#toRunningTurn(agentId, request);
      // Nobody answers that it was accepted; whoever is not sure sends it again.
      if (!taken || repeated) await this.toAcceptor(agentId, request);
    } else {
      const also = way === 'twice' ? [this.toAcceptor(agentId, request)] : [];
      const own = way === 'both' ? [this.#byClient(agentId, request)] : [];
      await Promise.all([this.toAcceptor(agentId, request), ...also, ...own]);
    }
    this.#deps.tail.follow(agentId);
  }

  /** Starts the acceptor with the request, or gives it to the one that runs. */
  async toAcceptor(agentId: string, request: ForeignInput): Promise<void> {
    const { temporal, ledger } = this.#deps;
    const taken = await patiently(ledger, 'signal with start', () =>
      reaching(temporal, async () => {
        await temporal.workflow.signalWithStart('agent', {
          workflowId: agentWorkflowId(agentId),
          taskQueue: CONTROL_QUEUE,
          args: [{ agentId }],
          signal: enqueueSignal,
          signalArgs: [request],
        });
        return true;
      }),
    );
    if (taken) this.#note(agentId, request, null);
  }

  /** Whether a turn took it; a turn that is closed takes nothing. */
  async #toRunningTurn(agentId: string, request: ForeignInput): Promise<boolean> {
    const { client, temporal, ledger } = this.#deps;
    const running = await patiently(ledger, 'a look at the agent', () => client.agent(agentId).get());
    const through = running?.agent.currentTurn?.agentTurnId ?? null;
    if (through === null) return false;
    const handle = temporal.workflow.getHandle(turnWorkflowId(agentId, through));
    try {
      await patiently(ledger, 'signal', () => reaching(temporal, () => handle.signal(enqueueSignal, request)));
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      ledger.count('foreign requests to a closed turn');
      return false;
    }
    this.#note(agentId, request, through);
    return true;
  }

  async #byClient(agentId: string, request: ForeignInput): Promise<void> {
    const { client, ledger, tail } = this.#deps;
    try {
      const turn = await patiently(ledger, 'enqueue', () => client.agent(agentId).enqueue(request));
      if (!turn) return;
      ledger.count('enqueues acked');
      ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
      tail.expect(agentId, turn.id);
      if (turn.id === turnIdForKey(agentId, request.idempotencyKey)) return;
      ledger.problem({ check: 'one_key_two_turns', agentId, agentTurnId: turn.id, detail: 'not the turn of its key' });
    } catch (error) {
      if (codeOf(error) !== 'agent_stopped') throw error;
      ledger.count('enqueues refused agent_stopped');
    }
  }

  #note(agentId: string, { instruction, idempotencyKey }: ForeignInput, through: string | null): void {
    const { ledger } = this.#deps;
    ledger.count(`foreign requests to ${through === null ? 'an acceptor' : 'a turn'}`);
    ledger.foreign.push({ agentId, agentTurnId: turnIdForKey(agentId, idempotencyKey), instruction, through });
  }
}

/** What the server says of a closed workflow passes; everything else is a server that is away. */
async function reaching<T>(temporal: Client, call: () => Promise<T>): Promise<T> {
  try {
    return await temporal.withDeadline(Date.now() + CALL_MS, call);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw error;
    throw new CodedError('temporal_unreachable', String(error), { cause: error });
  }
}
