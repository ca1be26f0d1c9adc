/** The triggers of one agent, for a process that reaches the store; it needs no Temporal server. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { newWakeToken, wakePath, wakeTokenHash } from '../activities/wake-tokens.ts';
import { MOST_NAME_CHARACTERS } from '../workflows/agent-state/triggers.ts';
import type { TriggerView, WakeStore, WorkPage } from '../workflows/contract/agent-work.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { AgentTriggers, MadeTrigger } from './api.ts';

const inputSchema = z.strictObject({ name: z.string().trim().min(1).max(MOST_NAME_CHARACTERS) });

/** Like those of triggers that an agent makes itself. */
const newTriggerId = (): string => `trigger_${randomBytes(8).toString('hex')}`;

/** Lists, makes and revokes them. */
export class StoredTriggers implements AgentTriggers {
  readonly #store: Pick<WakeStore, 'listTriggers' | 'createTrigger' | 'revokeTrigger'>;
  readonly #agentId: string;

  constructor(store: Pick<WakeStore, 'listTriggers' | 'createTrigger' | 'revokeTrigger'>, agentId: string) {
    this.#store = store;
    this.#agentId = agentId;
  }

  list(page: WorkPage = {}): Promise<readonly TriggerView[]> {
    return this.#store.listTriggers(this.#agentId, page);
  }

  async create(input: { readonly name: string }): Promise<MadeTrigger> {
    const parsed = inputSchema.safeParse(input);
    if (!parsed.success) throw new CodedError('invalid_request', `the trigger: ${z.prettifyError(parsed.error)}`);
    const token = newWakeToken();
    const trigger = { triggerId: newTriggerId(), name: parsed.data.name, tokenHash: wakeTokenHash(token) };
    const made = await this.#store.createTrigger(this.#agentId, trigger);
    return { ...made, token, path: wakePath(token) };
  }

  revoke(triggerId: string): Promise<boolean> {
    return this.#store.revokeTrigger(this.#agentId, triggerId);
  }
}
