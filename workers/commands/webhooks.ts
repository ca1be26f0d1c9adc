/** `gateway webhook` and `gateway webhooks`: the file in which webhooks are kept, and how they stand; and telling them, for processes that serve. */
import { join } from 'node:path';
import { z } from 'zod';
import type { CliIo } from '../../client/cli/environment.ts';
import { UsageError } from '../../client/cli/failure.ts';
import { shortened, table, time } from '../../client/cli/format.ts';
import { newWebhook, type Webhook, webhookSchema } from '../../client/webhooks/webhook.ts';
import { startWebhooks, type WebhooksOptions } from '../../client/webhooks/webhooks.ts';
import { TOPICS, type WebhookView } from '../../workflows/contract/webhooks.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Config } from '../config.ts';
import type { Cleanup } from './cleanup.ts';
import { readPrivateList, writePrivateList } from './private-list.ts';
import type { GatewayWebhookOptions, GatewayWebhooksOptions } from './process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './settings.ts';

const FILE = 'gateway-webhooks.json';
const ERROR_CHARACTERS = 60;

/** Where webhooks are kept: as named, or in the data folder. */
const webhooksFile = ({ config, dataDir }: Settings): string => config.gateway.webhooksFile ?? join(dataDir, FILE);

/** The webhooks of the file. Errors: `invalid_config`. */
const knownWebhooks = (settings: Settings): readonly Webhook[] =>
  readPrivateList(webhooksFile(settings), webhookSchema, 'webhooks');

/** Tells the webhooks that are known, until `cleanup` ends it. Errors: `invalid_config`. */
export function tellWebhooks(
  settings: Settings,
  { store, log }: Pick<WebhooksOptions, 'store' | 'log'>,
  cleanup: Cleanup,
): void {
  const webhooks = knownWebhooks(settings);
  if (webhooks.length === 0) return;
  const running = startWebhooks({ store, webhooks, log });
  cleanup.add(() => running.stop());
}

/** `gateway webhook`: makes or changes a webhook, and prints its secret; or takes it away. Resolves with the exit code. */
export async function gatewayWebhook(config: Config, io: CliIo, options: GatewayWebhookOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const file = webhooksFile(settings);
  const { name, url, events = TOPICS, tenant, agents, format = 'standard', rotate = false, remove = false } = options;
  const known = readPrivateList(file, webhookSchema, 'webhooks');
  const before = known.find((each) => each.name === name);
  const others = known.filter((each) => each.name !== name);
  if (remove) return removed(file, before, others, io, options);
  const wanted = webhookSchema.omit({ id: true, secrets: true }).safeParse({
    name,
    url: url ?? before?.url,
    events: options.events === undefined ? (before?.events ?? events) : events,
    format: options.format === undefined ? (before?.format ?? format) : format,
    tenant: tenant ?? before?.tenant,
    agents: agents ?? before?.agents,
  });
  if (!wanted.success) throw new UsageError('invalid_config', `the webhook: ${z.prettifyError(wanted.error)}`);
  const made = newWebhook(wanted.data, before, rotate);
  writePrivateList(file, [...others, made]);
  const [secret = ''] = made.secrets;
  if (options.json) io.out(JSON.stringify({ name, url: made.url, events: made.events, secret, file }));
  else io.out(secret);
  io.err(
    `${name} is told of ${made.events.join(', ')} at ${made.url}, signed with the secret above; it is in ${file}, which gateways read when they start`,
  );
  return 0;
}

function removed(
  file: string,
  before: Webhook | undefined,
  others: readonly Webhook[],
  io: CliIo,
  { name, json }: GatewayWebhookOptions,
): number {
  if (!before) throw new CodedError('invalid_config', `the webhook: there is no ${name} in ${file}`);
  writePrivateList(file, others);
  if (json) io.out(JSON.stringify({ name, removed: true, file }));
  else io.out(`${name} is not told any more, once the gateways have been started again`);
  return 0;
}

/** `gateway webhooks`: how each webhook stands. Resolves with the exit code. */
export async function gatewayWebhooks(config: Config, io: CliIo, options: GatewayWebhooksOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const known = knownWebhooks(settings);
  const store = await openExistingStore(settings);
  try {
    const views = new Map((await store.listWebhooks()).map((view) => [view.webhookId, view]));
    const webhooks = known.map(({ id, name, url, events, agents }) => ({
      name,
      // The rest of a URL may be a secret of the receiver's.
      host: new URL(url).host,
      events,
      agents: agents ?? null,
      ...shownView(views.get(id)),
    }));
    if (options.json) io.out(JSON.stringify({ items: webhooks }));
    else if (webhooks.length === 0) io.out(`no webhooks in ${webhooksFile(settings)}`);
    else for (const line of table(rowsOf(webhooks))) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}

type ShownView = Omit<WebhookView, 'webhookId'>;

function shownView(view: WebhookView | undefined): ShownView {
  if (!view) return { sent: 0, failed: 0, agentsBehind: 0, lastSentAt: null, lastFailedAt: null, lastError: null };
  const { webhookId: _, ...rest } = view;
  return rest;
}

type ShownWebhook = ShownView & Pick<Webhook, 'name' | 'events'> & { readonly host: string };

const rowsOf = (webhooks: readonly ShownWebhook[]): string[][] => [
  ['NAME', 'SENT', 'AGENTS BEHIND', 'FAILED TRIES', 'LAST SENT', 'LAST FAILURE', 'HOST'],
  ...webhooks.map(({ name, sent, agentsBehind, failed, lastSentAt, lastFailedAt, lastError, host }) => [
    name,
    String(sent),
    String(agentsBehind),
    String(failed),
    lastSentAt === null ? '-' : time(lastSentAt),
    lastFailedAt === null ? '-' : `${time(lastFailedAt)} ${shortened(lastError ?? '', ERROR_CHARACTERS)}`,
    host,
  ]),
];
