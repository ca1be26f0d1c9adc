/**
 * `npm run bench:chat`: how long it takes from a message of a chat to the first bytes of its answer, beside a plain request whose turn is
 * streamed, in the same run. Each is asked in turns; the medians are printed.
 */
import { v7 } from 'uuid';
import type { TurnHandle } from '../client/api.ts';
import { openLab, STORES, type StoreKind } from './lab.ts';
import { percentile } from './numbers.ts';
import { instructionOf, PROFILE } from './workload.ts';

const ROUNDS = 100;
const WARM_UP = 10;
const LONGEST_MS = 10 * 60_000;

setTimeout(() => {
  throw new Error('the bench hangs, or the machine is too busy to measure on');
}, LONGEST_MS).unref();

const text = instructionOf({ tool: 'produce', calls: 0, bytes: 0 });

/** Ms until the first text of the turn that this begins; then its end is awaited. */
async function firstByteOf(begin: () => Promise<TurnHandle | null>): Promise<number> {
  const startedAt = performance.now();
  const turn = await begin();
  if (!turn) throw new Error('the message was rejected');
  for await (const part of turn.stream()) {
    if (part.type !== 'text') continue;
    const ms = performance.now() - startedAt;
    await turn.result();
    return ms;
  }
  throw new Error('the turn said nothing');
}

async function measureOn(store: StoreKind): Promise<string> {
  const lab = await openLab({ store });
  try {
    const worker = await lab.startWorker({});
    const plain: number[] = [];
    const chats: number[] = [];
    for (let n = -WARM_UP; n < ROUNDS; n += 1) {
      const [id, chat] = [`agent-${v7()}`, lab.client.chat('talker', `c-${v7()}`, { profile: PROFILE })];
      const ofPlain = await firstByteOf(() => lab.client.agent(id).enqueue({ instruction: text, profile: PROFILE }));
      const ofChat = await firstByteOf(async () => (await chat.send(text)).turn);
      if (n < 0) continue;
      plain.push(ofPlain);
      chats.push(ofChat);
    }
    await worker.stop();
    const [a, b] = [percentile(plain, 0.5), percentile(chats, 0.5)];
    return `${store}: first byte of a plain turn ${a.toFixed(1)} ms, of a chat's ${b.toFixed(1)} ms, ${(b / a).toFixed(2)} times (medians of ${ROUNDS})`;
  } finally {
    await lab.close();
  }
}

for (const store of STORES) console.log(await measureOn(store));
process.exit(0);
