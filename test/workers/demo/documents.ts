/** A small folder of documents for the demo to answer questions about. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { emptyFolder } from '../../client/cli/processes.ts';

const DOCUMENTS = {
  'README.md': '# Bramble\n\nBramble is a job queue for small teams. It keeps jobs in one file\nand needs no server.\n',
  'guide/retries.md':
    '# Retrying jobs\n\nA failed job is retried five times, e.g. after a crash of the worker. The delay doubles\n' +
    'with each attempt and starts at two seconds.\n',
  'guide/budgets.md': '# Limits\n\n| limit | value |\n|---|---|\n| payload of a job | 64 KiB |\n',
};

export const QUESTION = 'How often is a failed job retried?';

export function documents(): { readonly dir: string; read(path: string): string } {
  const dir = emptyFolder();
  for (const [path, text] of Object.entries(DOCUMENTS)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return { dir, read: (path) => readFileSync(join(dir, path), 'utf8') };
}

export interface DemoJson {
  readonly ok: boolean;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly status: string;
  readonly error?: { readonly code: string };
  readonly answer: string | null;
  readonly sources: readonly {
    readonly path: string;
    readonly line: number;
    readonly quote: string;
    readonly problem?: string;
  }[];
  readonly model: string;
  readonly offline: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly what: string }[];
  readonly history: Readonly<{ workflowId: string; events: number; bytes: number }>;
  readonly crash?: { readonly killed: number; readonly second: number };
  readonly data: { readonly effectsLog: string };
  readonly turn: { readonly stepCount: number; readonly usage: { readonly input: number } };
}

/** Each start of a tool, as the tools logged it. */
export function effectsOf({
  data,
}: DemoJson): { readonly callId: string; readonly tool: string; readonly pid: number }[] {
  const lines = readFileSync(data.effectsLog, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
}
