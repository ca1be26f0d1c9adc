/** A store, a namespace, a scripted model and a running `agentturn worker`, for tests of the command line. */
import { fileURLToPath } from 'node:url';
import {
  type ScriptedModelOptions,
  type ScriptedServer,
  startScriptedModel,
} from '../../../workers/model-server/scripted.ts';
import { type Backend, type Harness, openHarness } from '../../support/harness.ts';
import { commandsIn, type RunCommand } from './in-process.ts';
import { type CliOptions, type CliProcess, startCli } from './processes.ts';

const APP = fileURLToPath(new URL('fixture-app.ts', import.meta.url));

export interface Installation {
  readonly harness: Harness;
  readonly model: ScriptedServer;
  /** Runs a command in this process. */
  readonly cli: RunCommand;
  /** Starts one as a process of its own. */
  readonly start: (args: readonly string[], more?: CliOptions) => CliProcess;
  close(): Promise<void>;
}

/** Calls that the tools of fixture-app.ts answer. */
export const PERSON = { kind: 'message', toolCalls: [{ name: 'sign_off', arguments: { what: 'it' } }] } as const;
export const ADD = { kind: 'message', toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] } as const;
export const REFUND = { kind: 'message', toolCalls: [{ name: 'refund', arguments: { amount: 7 } }] } as const;
export const say = (content: string) => ({ kind: 'message', content }) as const;

export async function openInstallation(
  scripts: NonNullable<ScriptedModelOptions['scripts']>,
  backend: Backend = 'sqlite',
): Promise<Installation> {
  const harness = await openHarness(backend);
  const model = await startScriptedModel({ scripts });
  const env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: harness.storeUrl,
    AGENTTURN_APP: APP,
    OPENAI_BASE_URL: model.url,
  };
  const start = (args: readonly string[], more: CliOptions = {}) =>
    startCli(args, { ...more, env: { ...env, ...more.env } });
  const worker = start(['worker', '--json']);
  await worker.until(/\{"ready".*\n/);
  return {
    harness,
    model,
    start,
    cli: commandsIn(env),
    async close() {
      await worker.end('SIGTERM');
      await harness.close();
      await model.close();
    },
  };
}
