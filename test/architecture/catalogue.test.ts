/** The documents say what the code does: the error catalogue, the paths and the commands they name. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { FAILURES, type FailureEntry } from '../../workflows/protocol/failures.ts';
import { profileSchema, timeoutsSchema } from '../../workflows/protocol/profile.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

/** The codes of the table in T8, which tells how a turn can end. */
const TURN_ENDS = [
  ...['max_steps_reached', 'budget_tokens', 'budget_wall_time', 'budget_tool_calls', 'budget_cost', 'no_progress'],
  ...['report_missing', 'stopped', 'canceled', 'dispatch_timeout', 'turn_timeout'],
  ...['provider_error', 'provider_auth', 'provider_refusal', 'context_overflow', 'answer_truncated'],
  ...['policy_denied', 'milestone_exceeded', 'recursion_depth_exceeded', 'delegation_cycle'],
  ...['profile_not_found', 'invalid_request', 'context_build_error', 'box_unavailable'],
  ...['terminated', 'worker_lost', 'protocol_violation', 'internal_error'],
];

/** The tables of a page like docs/errors.md: one row per code below a heading that ends with its scope. */
function rowsOf(page: string): string[] {
  return page.split(/^## /m).flatMap((section) => {
    const scope = /^.*\(`(\w+)`\)/.exec(section)?.[1];
    const rows = [...section.matchAll(/^\| `(\w+)` +\| (yes|no) +\| (.+?) +\| (.+?) +\|$/gm)];
    return rows.map(([, code, retry, message, cure]) => [scope, code, retry, message, cure].join(' | '));
  });
}

const rowOf = (code: string, { scope, retryable, message, cure }: FailureEntry): string =>
  [scope, code, retryable ? 'yes' : 'no', message, cure].join(' | ');

describe('the error catalogue', () => {
  const entries: readonly (readonly [string, FailureEntry])[] = Object.entries(FAILURES);

  test('equals docs/errors.md, row by row and both ways', () => {
    const documented = rowsOf(read('docs/errors.md'));
    expect([...documented].sort()).toEqual(entries.map(([code, entry]) => rowOf(code, entry)).sort());
  });

  test('has every code by which a turn can end, and no other in that scope (T8)', () => {
    const ends = entries.filter(([, { scope }]) => scope === 'turn').map(([code]) => code);
    expect(ends.sort()).toEqual([...TURN_ENDS].sort());
  });

  test('would be found different from a page with a changed, a missing or an added row', () => {
    const page =
      '## Ends (`turn`)\n\n| code | retry | a | b |\n| --- | --- | --- | --- |\n| `stopped` | no | It. | Do. |\n';
    expect(rowsOf(page)).toEqual(['turn | stopped | no | It. | Do.']);
    expect(rowsOf(page.replace('no', 'yes'))).not.toEqual(rowsOf(page));
    expect(rowsOf(page.replace('turn', 'tool'))).not.toEqual(rowsOf(page));
    expect(rowsOf('# Nothing here')).toEqual([]);
  });
});

describe('docs/profile.md', () => {
  /** The names in the rows of a table, each with its default as it is written there. */
  const [fields = [], timeouts = []] = read('docs/profile.md')
    .split(/^\| field of .*$/m)
    .map((part) => [...part.matchAll(/^\| `(\w+)` +\| (.+?) +\|/gm)].map(([, name, value]) => [name, value] as const));

  test('has every field of a profile, and `output`, once', () => {
    const known = [...Object.keys(profileSchema.shape), 'output'];
    expect(fields.map(([name]) => name).sort()).toEqual(known.sort());
  });

  test('has every watchdog with its default', () => {
    const documented = timeouts.map(([name, value]) => [name, value?.replaceAll(/[,`]/g, '')]);
    const defaults: Readonly<Record<string, unknown>> = timeoutsSchema.parse({});
    const known = Object.keys(timeoutsSchema.shape).map((name) => [name, String(defaults[name] ?? 'none')]);
    expect(documented.sort()).toEqual(known.sort());
  });
});

const pages = globSync(['*.md', 'docs/*.md'], { cwd: root });
const SOURCE_FOLDERS = ['workflows', 'activities', 'client', 'workers', 'test', 'bench', 'examples', 'docs'];

/** Paths of this repository that a page names: in backticks, or as the target of a link. */
function pathsIn(page: string, text: string): string[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '');
  const quoted = [...prose.matchAll(/`([^`\s]+)`/g)].flatMap(([, name]) => name ?? []);
  const links = [...prose.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)].flatMap(([, target]) => target ?? []);
  const relative = links.map((target) => posix.join(posix.dirname(page), target));
  return [...quoted.filter(looksLikePath), ...relative];
}

function looksLikePath(name: string): boolean {
  if (!/^[\w./-]+$/.test(name)) return false;
  const [first = '', second] = name.split('/');
  return (second !== undefined && SOURCE_FOLDERS.includes(first)) || /^[\w-]+\.(ts|md|json)$/.test(name);
}

describe.each(pages)('%s', (page) => {
  test('names only paths that exist', () => {
    expect(pathsIn(page, read(page)).filter((path) => !existsSync(`${root}/${path}`))).toEqual([]);
  });

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...read(page).matchAll(/npm run ([\w:-]+)/g)].flatMap(([, script]) => script ?? []);
    expect(named.filter((script) => !Object.hasOwn(scripts, script))).toEqual([]);
  });
});

describe('a path in a page', () => {
  test('is known by its folder, its ending or the link it is in', () => {
    const text = [
      'See `workflows/kernel/step.ts` and `docs/`, [here](gone.md#part), [there](https://example.org/x.md).',
      'Not `agents/{id}`, `npm run x`, `a/b`, `sqlite:PATH`, `test`; but `index.ts` is.',
      '```ts\nimport x from `workflows/none.ts`;\n```',
    ].join('\n');
    expect(pathsIn('docs/a.md', text)).toEqual(['workflows/kernel/step.ts', 'docs/', 'index.ts', 'docs/gone.md']);
  });
});
