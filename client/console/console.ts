/**
 * The console: one page for people, served by the gateway beside its routes. It is made of plain modules, which no bundler touches, and calls the
 * gateway with the token of whoever signed in; the page itself holds nothing secret.
 *
 * Invariant: the page loads from, and talks to, the gateway that serves it and nobody else.
 */
import { readFileSync } from 'node:fs';
// By its object: an older Node, which has no such function, is to come as far as the sentence that says so.
import nodeModule from 'node:module';
import { Hono } from 'hono';
import { html } from 'hono/html';
import { secureHeaders } from 'hono/secure-headers';

const MODULES = [
  'main',
  'agent',
  'chat',
  'chats',
  'dom',
  'format',
  'gateway',
  'operate',
  'overview',
  'questions',
  'steps',
  'summary',
  'turn',
  'view',
] as const;

const POLICY = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  connectSrc: ["'self'"],
  imgSrc: ['data:'],
  baseUri: ["'none'"],
  formAction: ["'none'"],
  frameAncestors: ["'none'"],
  requireTrustedTypesFor: ["'script'"],
};

const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>AgentTurn</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="console.css">
<script type="module" src="main.js"></script>
</head>
<body>
<a class="skip" href="#main">To the content</a>
<header><h1><a href="#/">AgentTurn</a></h1><nav><a href="#/chats">Chats</a></nav><div id="account"></div></header>
<p id="problem" role="alert"></p>
<main id="main" tabindex="-1"><noscript>The console needs JavaScript.</noscript></main>
</body>
</html>
`;

/** A module of the page as browsers run it: from the sources without its types, else as it was built. */
function moduleText(name: string): string {
  const ending = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  const text = readFileSync(new URL(`./page/${name}${ending}`, import.meta.url), 'utf8');
  return ending === '.js' ? text : browserCode(text);
}

/**
 * TypeScript as browsers run it: with the names that the modules have there, and without comments and blanks that nobody needs there. It goes
 * by lines, so a module of the page has no template of several lines.
 */
export const browserCode = (source: string): string =>
  nodeModule
    .stripTypeScriptTypes(source)
    .replaceAll(/^ *(\/\*\*[\s\S]*?\*\/|\/\/.*)$/gm, '')
    .replaceAll(/\s+$/gm, '')
    .replaceAll(/^( {2})+/gm, (indent) => '\t'.repeat(indent.length / 2))
    .replaceAll(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'");

/** The page, its style and its modules, at `/console/`. */
export function consoleApp(): Hono {
  const app = new Hono();
  app.use(
    secureHeaders({ contentSecurityPolicy: POLICY, referrerPolicy: 'no-referrer', strictTransportSecurity: false }),
  );
  app.use(async (c, next) => {
    await next();
    c.header('cache-control', 'no-cache');
  });
  const style = readFileSync(new URL('./page/console.css', import.meta.url), 'utf8');
  const modules = new Map<string, string>();
  app.get('/', (c) => c.html(page));
  app.get('/console.css', (c) => c.body(style, 200, { 'content-type': 'text/css; charset=utf-8' }));
  for (const name of MODULES)
    app.get(`/${name}.js`, (c) => {
      const text = modules.get(name) ?? moduleText(name);
      modules.set(name, text);
      return c.body(text, 200, { 'content-type': 'text/javascript; charset=utf-8' });
    });
  return app;
}
