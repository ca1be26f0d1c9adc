/** `agentturn/gateway`: what a client can do, over HTTP, as one function from a request to its response and as a server. */
import './demand-node.ts';

export { CallbackTokens } from '../client/gateway/callback-tokens.ts';
export { type GatewayToken, keptToken, newToken, SCOPES, type Scope } from '../client/gateway/caller.ts';
export { createGateway, type Gateway, type GatewayDeps } from '../client/gateway/gateway.ts';
export type { GatewayLimits } from '../client/gateway/limits.ts';
export type { Problem } from '../client/gateway/problems.ts';
export { newWebhook, type Webhook, type WebhookInput, webhookSchema } from '../client/webhooks/webhook.ts';
export { type RunningWebhooks, startWebhooks, type WebhooksOptions } from '../client/webhooks/webhooks.ts';
export { type GatewayServer, type GatewayServerOptions, listen } from './gateway-server.ts';
