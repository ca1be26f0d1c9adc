/** A worker in a process of its own, on the same code as production, for tests that kill or freeze it. Its app is holdingApp. */
import { connectClient, connectWorker } from '../../workers/connect.ts';
import { openStore } from '../../workers/open-store.ts';
import { installRuntime } from '../../workers/runtime.ts';
import { startWorker, type WorkerLimits } from '../../workers/worker.ts';
import { holdingApp } from './holding-app.ts';

export interface WorkerProcessArgument {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
  readonly modelUrl: string;
  readonly bundlePath: string;
  readonly dir: string;
  readonly mailboxes: boolean;
  readonly limits: WorkerLimits;
}

const argument = JSON.parse(process.argv[2] ?? 'null') as WorkerProcessArgument;
// Our end of this pipe closes when the test is gone, however it ended.
process.stdin.resume().once('end', () => process.exit(1));
installRuntime('WARN');
const worker = await startWorker({
  temporal: await connectClient(argument),
  connection: await connectWorker(argument),
  store: await openStore(argument.storeUrl),
  app: holdingApp(argument.dir),
  model: { apiKey: 'test', baseUrl: argument.modelUrl, defaultModel: 'scripted' },
  targets: ['worker_generic'],
  mailboxes: argument.mailboxes,
  bundle: { codePath: argument.bundlePath },
  limits: { shutdownGraceMs: 1_000, ...argument.limits },
  log: (line) => console.error(line),
});
process.once('SIGTERM', () => void worker.stop());
console.log('ready');
await worker.done;
process.exit(0);
