/** `chat`: a conversation with an agent, at a terminal or in a pipe. */
import { userInfo } from 'node:os';
import type { QueuePolicy } from '../../../workflows/protocol/chat.ts';
import { isUserId } from '../../../workflows/protocol/ids.ts';
import { type CliEnvironment, type CommonOptions, connected } from '../environment.ts';
import { chosenAgent, type NamedAgent } from './choose-agent.ts';
import { chatInteractively } from './interactive.ts';
import { chatOnce } from './piped.ts';

/** The options of `chat`. */
export interface ChatCommandOptions extends CommonOptions {
  readonly chat: string;
  readonly profile?: string;
  /** Who writes; the user of this machine when left out. */
  readonly as?: string;
  readonly policy?: QueuePolicy;
}

const NOBODY = 'user';

/** Who writes where nobody is named: the user of this machine, as an id. */
export function senderName(name: string): string {
  const id = name.replace(/[^A-Za-z0-9._~-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  return isUserId(id) ? id : NOBODY;
}

function userOfMachine(): string {
  try {
    return senderName(userInfo().username);
  } catch {
    return NOBODY;
  }
}

/** With whom to chat, and with whom one could. */
async function knownAgents(
  { openStore }: CliEnvironment,
  named: NamedAgent,
  options: CommonOptions,
): Promise<{ readonly agent: string; readonly profiles: readonly string[] }> {
  const store = await openStore(options);
  try {
    const agent = await chosenAgent(store, named);
    return { agent, profiles: (await store.listProfiles()).map(({ name }) => name) };
  } finally {
    await store.close();
  }
}

/** `chat`. Resolves with the exit code. Errors: `invalid_request`, `invalid_input`, `profile_not_found`, those of sending. */
export async function chatCommand(
  environment: CliEnvironment,
  named: string | undefined,
  options: ChatCommandOptions,
): Promise<number> {
  const { io } = environment;
  const { chat: chatId, profile, as: me = userOfMachine(), policy, json = false } = options;
  const { agent, profiles } = await knownAgents(environment, { agent: named, chatId, profile }, options);
  const terminal = json ? null : environment.terminal();
  return connected(environment, options, async ({ client }) => {
    const chat = client.chat(agent, chatId, profile === undefined ? {} : { profile });
    const common = { client, chat, me, policy };
    if (!terminal) {
      const { interruption } = environment;
      return chatOnce({ ...common, io, json, interruption });
    }
    return chatInteractively({ ...common, terminal, of: agent, profiles, interruption: environment.interruption() });
  });
}
