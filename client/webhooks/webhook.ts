/** A webhook: where events are told, which ones, and with which secrets they are signed (https://www.standardwebhooks.com). */
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { type Border, borderFrom, TENANT_PATTERN } from '../../workflows/contract/border.ts';
import { TOPICS } from '../../workflows/contract/webhooks.ts';
import { USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';

const SECRET_PREFIX = 'whsec_';
const SECRET_BYTES = 32;
/** How many secrets sign at once: the one in use, and the one before it. */
const SECRETS = 2;

const secretSchema = z.string().regex(/^whsec_[A-Za-z\d+/]{32,}={0,2}$/, {
  error: 'must be whsec_ and 24 bytes or more in base64',
});

/** A webhook as it is kept. */
export const webhookSchema = z.strictObject({
  /** What the store knows it by: a webhook that is made anew begins anew. */
  id: z.uuid(),
  name: z.string().min(1).max(100),
  url: z
    .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
    .refine((url) => !/^https?:\/\/[^/]*@/.test(url), { error: 'must not have a user or a password' }),
  /** The newest first; each signs. */
  secrets: z.array(secretSchema).min(1).max(SECRETS),
  events: z.array(z.enum(TOPICS)).min(1),
  /** The tenant whose agents it is told of; of the operators' alone where `agents` is given, else of all, when left out. */
  tenant: z.string().regex(TENANT_PATTERN).optional(),
  /** Beginnings of agent ids, up to a `~`: it is told of those agents, and of what they have made. */
  agents: z.array(z.string().regex(USER_ID_PATTERN)).min(1).optional(),
  /** What is sent: a message with its type and data, or only its text, as Slack takes it. */
  format: z.enum(['standard', 'slack']),
});
/** A webhook as it is kept. */
export type Webhook = z.output<typeof webhookSchema>;

/** What is said of a new webhook. */
export type WebhookInput = Omit<z.input<typeof webhookSchema>, 'id' | 'secrets'>;

/** Of what it is told. */
export function borderOf({ tenant, agents }: Pick<Webhook, 'tenant' | 'agents'>): Border {
  return borderFrom({ tenant, agents, anyProfile: true });
}

const newSecret = (): string => `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`;

/** A new webhook; in place of one of that name it goes on where that one is, with its secrets. `rotate` gives it a new one besides the last. */
export function newWebhook(input: WebhookInput, before: Webhook | undefined, rotate: boolean): Webhook {
  const known = before?.secrets ?? [];
  const secrets = rotate || known.length === 0 ? [newSecret(), ...known].slice(0, SECRETS) : known;
  return { ...webhookSchema.omit({ id: true, secrets: true }).parse(input), id: before?.id ?? randomUUID(), secrets };
}

/** The header that shows who sent a body: one signature for each secret. */
export function signaturesOf(secrets: readonly string[], id: string, timestampS: number, body: string): string {
  const sign = (secret: string) =>
    createHmac('sha256', Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64'))
      .update(`${id}.${timestampS}.${body}`)
      .digest('base64');
  return secrets.map((secret) => `v1,${sign(secret)}`).join(' ');
}
