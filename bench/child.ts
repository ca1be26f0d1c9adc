/**
 * The bench's helper processes, over Node's IPC: a child says once that it is ready, answers questions, and ends when told to, or when
 * the bench itself is gone.
 */
import { fork, type Serializable } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** The longest time until a process is ready, and until it answers. */
const ANSWER_MS = 120_000;

type FromChild =
  | { readonly type: 'ready' | 'answer'; readonly value: unknown }
  | { readonly type: 'failed'; readonly reason: string };

export interface Child {
  readonly pid: number;
  /** What the child sent along when it was ready. */
  readonly value: unknown;
  ask(question: Serializable): Promise<unknown>;
  /** Resolves when the process is gone. */
  stop(): Promise<void>;
}

/** How the process is started: Node's flags, and what its environment has besides. */
export interface Start {
  readonly flags?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** Runs `file` (relative to this folder) with one JSON argument. */
export async function startChild(file: string, argument: unknown, { flags = [], env }: Start = {}): Promise<Child> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = fork(path, [JSON.stringify(argument)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: [...process.execArgv, ...flags],
    env: { ...process.env, ...env },
  });
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`${file} ended with code ${code}`);
  });
  // Whoever waits for a message sees it; between two waits nobody needs to.
  gone.catch(() => {});
  const next = async (): Promise<unknown> => {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const [message] = (await Promise.race([once(child, 'message', { signal }), gone])) as [FromChild];
    if (message.type === 'failed') throw new Error(`${file}: ${message.reason}`);
    return message.value;
  };
  const value = await next();
  const { pid } = child;
  if (pid === undefined) throw new Error(`${file} has no process id`);
  let asked: Promise<unknown> = Promise.resolve();
  return {
    pid,
    value,
    // One after the other: an answer does not say which question it belongs to.
    ask(question) {
      const answer = asked.then(() => {
        child.send(question);
        return next();
      });
      asked = answer.catch(() => {});
      return answer;
    },
    async stop() {
      child.send('stop');
      await gone.catch(() => {});
    },
  };
}

/** The other side: runs `start`, reports what it returned, then answers until told to stop. */
export async function serveParent<T extends { stop(): Promise<void> }>(
  start: (argument: unknown) => Promise<{ served: T; value: unknown }>,
  answer: (served: T, question: unknown) => unknown = () => null,
): Promise<void> {
  process.once('disconnect', () => process.exit(1));
  const send = (message: FromChild) => void process.send?.(message);
  const failed = (error: unknown) => send({ type: 'failed', reason: String(error) });
  try {
    const { served, value } = await start(JSON.parse(process.argv[2] ?? 'null'));
    process.on('message', async (question: unknown) => {
      if (question === 'stop') {
        await served.stop();
        process.exit(0);
      }
      try {
        send({ type: 'answer', value: await answer(served, question) });
      } catch (error) {
        failed(error);
      }
    });
    send({ type: 'ready', value });
  } catch (error) {
    failed(error);
    process.exitCode = 1;
  }
}
