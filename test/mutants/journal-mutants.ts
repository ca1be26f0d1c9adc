/** Mutants that break one rule of the journals of chat sessions each, or of recovery from them. */
import type { Mutant } from './mutant.ts';

const FOLDER = 'test/workers/journal/folder-journal.test.ts';
const WORKER = 'test/workers/journal/worker-journal.test.ts';
const RECOVERY = 'test/workers/journal/recovery.test.ts';

export const JOURNAL_MUTANTS: readonly Mutant[] = [
  {
    rule: 'C9',
    breaks: 'a turn closes before the journal has its end',
    file: 'activities/store-activities.ts',
    find: `await journal?.record(handover.agentId);`,
    replace: ``,
    test: WORKER,
    only: 'sqlite',
  },
  {
    rule: 'C9',
    breaks: 'the model is asked before the journal has the beginning of the turn',
    file: 'activities/llm/call-model.ts',
    find: `if (input.request.stepIndex === 1) await journal?.record(input.agentId);`,
    replace: ``,
    test: WORKER,
    only: 'sqlite',
  },
  {
    rule: 'C9',
    breaks: 'a repeated line sets the journal back',
    file: 'workers/journal/folder-journal.ts',
    find: `if (line.seq <= before.lastSeq) return before;`,
    replace: ``,
    test: FOLDER,
    only: 'SQLite',
  },
  {
    rule: 'C9',
    breaks: 'two recorders write at once',
    file: 'workers/journal/folder-lock.ts',
    find: `lock.exec('BEGIN EXCLUSIVE');`,
    replace: ``,
    test: FOLDER,
    only: 'SQLite',
  },
  {
    rule: 'C9',
    breaks: 'a symbolic link leads out of the folder',
    file: 'workers/journal/files.ts',
    find: `orNull(open(path, O_RDONLY | O_NOFOLLOW))`,
    replace: `orNull(open(path, O_RDONLY))`,
    test: FOLDER,
    only: 'SQLite',
  },
  {
    rule: 'C10',
    breaks: 'a torn line stays, and the next one is glued to it',
    file: 'workers/journal/folder-journal.ts',
    find: `if (isTorn) await file.truncate(checkpoint.offset);`,
    replace: ``,
    test: FOLDER,
    only: 'SQLite',
  },
  {
    rule: 'C10',
    breaks: 'the turn that was open is forgotten',
    file: 'workers/journal/history.ts',
    find: `open ? [...this.#turns, closedTurn(open)] : this.#turns`,
    replace: `this.#turns`,
    test: RECOVERY,
    only: 'sqlite',
  },
  {
    rule: 'C10',
    breaks: 'a turn is closed whose workflow runs',
    file: 'workers/journal/recovery.ts',
    find: `if (kind === 'running') return { closedTurnId: null, handover: null };`,
    replace: ``,
    test: RECOVERY,
    only: 'sqlite',
  },
  {
    rule: 'C10',
    breaks: 'a session of another store is taken for the one of the journal',
    file: 'workers/journal/folder-journal.ts',
    find: `if (standing) await this.#demandRestored(session);`,
    replace: ``,
    test: RECOVERY,
    only: 'sqlite',
  },
];
