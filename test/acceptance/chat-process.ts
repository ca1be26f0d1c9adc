/** A process that talks in chats: so many messages with random policies, each sent again with its key until it has an answer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentClient } from '../../client/agent-client.ts';
import { connectClient } from '../../client/connect.ts';
import { openStore } from '../../workers/open-store.ts';
import { QUEUE_POLICIES } from '../../workflows/protocol/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { randomOf } from '../chaos/random.ts';

export interface TalkerArgument {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
  /** By which this process is told from others: who sends, and the keys of its messages. */
  readonly name: string;
  readonly seed: number;
  readonly chats: readonly string[];
  readonly count: number;
}

/** What it prints when it has said everything. */
export interface Talked {
  /** The keys of the messages that were taken. */
  readonly taken: readonly string[];
  /** Why others were refused. */
  readonly refused: readonly string[];
}

const SIDE_BY_SIDE = 4;
const PAUSE_MS = 100;

const argument = JSON.parse(process.argv[2] ?? 'null') as TalkerArgument;
const { address, namespace, storeUrl, name, seed, chats, count } = argument;
process.stdin.resume().once('end', () => process.exit(1));
const temporal = await connectClient({ address, namespace }, 60_000);
const store = await openStore(storeUrl);
const client = new AgentClient({ temporal: temporal.client, store });
const taken: string[] = [];
const refused: string[] = [];
let next = 0;

async function say(key: string, random: ReturnType<typeof randomOf>): Promise<void> {
  const chat = client.chat('friend', random.pick(chats) ?? '', { profile: 'tester' });
  const policy = random.pick(QUEUE_POLICIES) ?? 'collect';
  for (;;) {
    try {
      await chat.send(`(${key}) says`, { key, policy, sender: name });
      taken.push(key);
      return;
    } catch (error) {
      if (error instanceof CodedError && error.code !== 'temporal_unreachable' && error.code !== 'store_unavailable') {
        refused.push(`${key}: ${error.code}`);
        return;
      }
      await sleep(PAUSE_MS);
    }
  }
}

async function talk(): Promise<void> {
  for (let at = next++; at < count; at = next++) {
    const random = randomOf(seed, `${name}-${at}`);
    await sleep(random.int(0, PAUSE_MS));
    await say(`${name}-${at}`, random);
  }
}

await Promise.all(Array.from({ length: SIDE_BY_SIDE }, talk));
process.stdout.write(JSON.stringify({ taken, refused } satisfies Talked));
await store.close();
await temporal.connection.close();
process.exit(0);
