/**
 * What it takes to follow turns over HTTP: how late a chunk of the model reaches a subscriber in another process, and whether hundreds of
 * readers, some slow and many that leave and come back, get everything once.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentHttpClient } from '../../client/http/http-client.ts';
import { startChild } from '../child.ts';
import { type Facts, gatherFacts, loadNow } from '../facts.ts';
import { type Lab, SMALL } from '../lab.ts';
import { percentile } from '../numbers.ts';
import { residentBytes } from '../probes.ts';
import { PROFILE } from '../workload.ts';
import { TOKEN } from './token.ts';

export interface StreamOptions {
  readonly readers: number;
  readonly turns: number;
  readonly seconds: number;
}

export interface StreamResults {
  readonly facts: Facts;
  readonly store: Lab['storeKind'];
  /** From the model's write of a chunk to its reader, of one turn that nobody else disturbs, ms. */
  readonly chunks: number;
  readonly medianMs: number;
  readonly p95Ms: number;
  readonly readers: number;
  readonly turns: number;
  readonly seconds: number;
  /** Turns that were read to their end, counted once for each reader. */
  readonly read: number;
  readonly resumed: number;
  /** Readers that lost, doubled or reordered anything. */
  readonly wrong: number;
  readonly gatewayBytes: number;
}

const CHUNKS = 200;
const CHUNK_MS = 50;
/** Of the turns that many readers follow. */
const CROWD_CHUNKS = 300;
const CROWD_CHUNK_MS = 60;
/** One reader of so many is slow. */
const SLOW = 10;
const SLOW_MS = 400;

interface Reader {
  readonly numbers: number[];
  resumed: number;
}

export async function measureStreams(
  lab: Lab,
  { readers, turns, seconds }: StreamOptions,
  say: (line: string) => void,
): Promise<StreamResults> {
  const facts = await gatherFacts(lab, loadNow());
  const model = await startChild('./streams/model-process.ts', null);
  const { address, namespace } = lab.server;
  const gateway = await startChild(
    './streams/gateway-process.ts',
    { address, namespace, storeUrl: lab.storeUrl },
    SMALL,
  );
  const worker = await lab.startWorker({ modelUrl: String(model.value) });
  try {
    const client = new AgentHttpClient({ url: String(gateway.value), token: TOKEN });
    say('one reader of one turn');
    await latencies(client, 20);
    const late = await latencies(client, CHUNKS);
    say(`${readers} readers of ${turns} turns for ${seconds} s`);
    const crowd = await follow(client, { readers, turns, seconds }, () => residentBytes(gateway.pid));
    return {
      facts,
      store: lab.storeKind,
      chunks: late.length,
      medianMs: percentile(late, 0.5),
      p95Ms: percentile(late, 0.95),
      readers,
      turns,
      seconds,
      ...crowd,
    };
  } finally {
    await worker.stop();
    await gateway.stop();
    await model.stop();
  }
}

const start = (client: AgentHttpClient, chunks: number, everyMs: number) =>
  client.run(PROFILE, { instruction: `${chunks} chunks every ${everyMs} ms` });

const CHUNK = /(\d+):(\d+) /g;

/** How late each chunk of a turn came, ms. */
async function latencies(client: AgentHttpClient, chunks: number): Promise<number[]> {
  const turn = await start(client, chunks, CHUNK_MS);
  const late: number[] = [];
  for await (const part of turn.stream()) {
    const now = Date.now();
    if (part.type === 'text') for (const [, , at] of part.delta.matchAll(CHUNK)) late.push(now - Number(at));
  }
  return late;
}

async function follow(client: AgentHttpClient, { readers, turns, seconds }: StreamOptions, residentNow: () => number) {
  const until = Date.now() + seconds * 1_000;
  const sum = { read: 0, resumed: 0, wrong: 0, gatewayBytes: 0 };
  const rounds = async (index: number) => {
    // Turns begin one after the other, and not all at once.
    await sleep((index * 2_000) / turns);
    while (Date.now() < until) {
      const turn = await start(client, CROWD_CHUNKS, CROWD_CHUNK_MS);
      const mine = Array.from({ length: Math.ceil(readers / turns) }, (_, reader) =>
        readTo(client, turn.id, index + turns * reader),
      );
      for (const { numbers, resumed } of await Promise.all(mine)) {
        sum.read += 1;
        sum.resumed += resumed;
        if (numbers.length !== CROWD_CHUNKS || numbers.some((number, place) => number !== place)) sum.wrong += 1;
      }
    }
  };
  const watching = setInterval(() => {
    sum.gatewayBytes = Math.max(sum.gatewayBytes, residentNow());
  }, 1_000);
  await Promise.all(Array.from({ length: turns }, (_, index) => rounds(index)));
  clearInterval(watching);
  return sum;
}

/** Reads a turn to its end; leaves now and then, and comes back. */
async function readTo(client: AgentHttpClient, agentTurnId: string, index: number): Promise<Reader> {
  const reader: Reader = { numbers: [], resumed: -1 };
  const isSlow = index % SLOW === 0;
  let text = '';
  for (let cursor: string | undefined; ; ) {
    reader.resumed += 1;
    const leaving = new AbortController();
    const stay = 1 + Math.floor(Math.random() * 200);
    let parts = 0;
    let ended = false;
    for await (const part of client
      .turn(agentTurnId)
      .stream({ signal: leaving.signal, ...(cursor ? { cursor } : {}) })) {
      cursor = part.cursor;
      if (part.type === 'text') text += part.delta;
      if (part.type === 'retracted') text = '';
      ended = part.type === 'end';
      if (isSlow) await sleep(SLOW_MS);
      parts += 1;
      if (parts === stay && !ended) leaving.abort();
    }
    if (!ended) continue;
    for (const [, number] of text.matchAll(CHUNK)) reader.numbers.push(Number(number));
    return reader;
  }
}
