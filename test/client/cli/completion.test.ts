/** What a shell completes, and what a command loads to answer at once. */
import { execFile } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { openStore } from '../../../workers/open-store.ts';
import { emptyFolder, runCli } from './processes.ts';

const PROGRAM = fileURLToPath(new URL('../../../workers/main.ts', import.meta.url));

describe('completion', () => {
  /** The words that are offered behind these. */
  const offered = async (...words: string[]): Promise<string[]> => {
    const { code, stdout } = await runCli(['complete', '--', ...words]);
    expect(code).toBe(0);
    return stdout
      .split('\n')
      .flatMap((line) => (line === '' || line.startsWith(':') ? [] : (line.split('\t')[0] ?? [])));
  };

  test.each([
    [
      ['turn', ''],
      ['show', 'stop', 'steer', 'interrupt', 'rollback', 'budgets'],
      ['ls', 'complete'],
    ],
    [['doc'], ['doctor'], ['demo', 'demo-worker']],
    [['turn', 'show', '--'], ['--full', '--json', '--store'], ['--wait']],
    [['enqueue', 'ann', 'go', '--priority', ''], ['now', 'normal', 'background'], ['--json']],
    [['agents', 'ls', '--posture', ''], ['archived', 'idle'], ['--json']],
    [['chat', 'clerk', '--policy', ''], ['collect', 'steer', 'interrupt', 'reject', 'rollback'], ['--json']],
    [['chats', ''], ['ls', 'messages'], ['--json']],
    [['triggers', ''], ['ls', 'create', 'revoke'], []],
    [['completion', ''], ['bash', 'zsh', 'fish', 'powershell'], []],
  ])('%j: %j, and not %j', async (words, some, none) => {
    const found = await offered(...words);
    expect(found).toEqual(expect.arrayContaining(some));
    expect(found.filter((word) => none.includes(word))).toEqual([]);
  });

  test('bash completes the program by the script', async () => {
    const bin = emptyFolder();
    writeFileSync(join(bin, 'agentturn'), `#!/bin/sh\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`);
    chmodSync(join(bin, 'agentturn'), 0o755);
    const script = `
      # What the package bash-completion brings.
      _get_comp_words_by_ref() { words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur="\${words[cword]}"; prev="\${words[cword-1]}"; }
      compopt() { :; }
      source <(agentturn completion bash)
      complete -p agentturn
      COMP_WORDS=(agentturn turn s) COMP_CWORD=2
      __agentturn_complete
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env });
    expect(stdout).toContain('-F __agentturn_complete');
    expect(stdout.split('\n')).toEqual(expect.arrayContaining(['show', 'stop', 'steer']));
  });

  test.each(['zsh', 'fish', 'powershell'])('there is a script for %s', async (shell) => {
    const { code, stdout } = await runCli(['completion', shell]);
    expect(code).toBe(0);
    expect(stdout).toContain('completion for agentturn');
  });

  test('a shell that is none is refused', async () => {
    const { code, stderr } = await runCli(['completion', 'tcsh']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('Allowed choices are zsh, bash, fish, powershell')]);
  });
});

describe('a command that only reads', () => {
  let store: string;
  beforeAll(async () => {
    store = `sqlite:${join(emptyFolder(), 'agentturn.db')}`;
    await (await openStore(store)).close();
  });

  /** Tells at the end which packages were loaded. */
  const REPORTS = `data:text/javascript,${encodeURIComponent(`
    import { registerHooks } from 'node:module';
    const loaded = new Set();
    registerHooks({ load(url, context, next) {
      const [, name] = /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url) ?? [];
      if (name) loaded.add(name);
      return next(url, context);
    } });
    process.on('exit', () => process.stdout.write(JSON.stringify([...loaded])));
  `)}`;

  test.each([
    [['turn', 'show', 'nobody']],
    [['agents', 'ls', '--json']],
    [['turns', 'ls', '--json']],
    [['chats', 'ls', '--json']],
    [['work', 'ls', 'nobody']],
  ])('%j loads no client of Temporal, no model, no server and no other database', async (args) => {
    const { stdout } = await runCli(args, { env: { AGENTTURN_STORE: store, NODE_OPTIONS: `--import ${REPORTS}` } });
    const loaded: string[] = JSON.parse(stdout.slice(stdout.lastIndexOf('[')));
    expect(loaded).toEqual(expect.arrayContaining(['commander', 'better-sqlite3']));
    const slow =
      /^@temporalio\/(client|worker|workflow|core-bridge|activity|proto)$|^@grpc|^(openai|hono|pg|gpt-tokenizer|webpack)$/;
    expect(loaded.filter((name) => slow.test(name))).toEqual([]);
  });
});

test('exit codes are those of docs/operating.md', async () => {
  const env = { AGENTTURN_STORE: `sqlite:${join(emptyFolder(), 'none.db')}` };
  const codes = await Promise.all(
    [['--version'], ['turns', 'ls'], ['doctor'], ['turn', 'show'], ['frobnicate']].map(async (args) => [
      args.join(' '),
      (await runCli(args, { env })).code,
    ]),
  );
  expect(codes).toEqual([
    ['--version', 0],
    ['turns ls', 1],
    ['doctor', 1],
    ['turn show', 2],
    ['frobnicate', 2],
  ]);
});
