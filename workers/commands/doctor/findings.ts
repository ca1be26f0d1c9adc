/** What `doctor` finds: what is well, and what is wrong by its name, with its cure. */
import { CodedError } from '../../../workflows/protocol/failures.ts';

/** What is examined. */
export type CheckName =
  | 'temporal'
  | 'namespace'
  | 'attributes'
  | 'store'
  | 'clock'
  | 'owner'
  | 'supervisor'
  | 'journal'
  | 'app'
  | 'versions'
  | 'model'
  | 'workers';

/** What is wrong and is no code of the catalogue, with its cure. */
export const DEFECTS = {
  attributes_missing: 'Register them with "temporal operator search-attribute create", or let --fix do it.',
  clock_skew:
    'Set the clock of this machine, for example by NTP: log lines, and tools that ask for the time, follow it.',
  direct_unreachable:
    'Correct AGENTTURN_STORE_DIRECT, or leave it out: without it each process asks for changes ten times a second.',
  no_supervisor:
    'Start a worker without AGENTTURN_SUPERVISOR=none; until then nobody notices lost workers, missed deadlines and lost starts.',
  agent_not_registered:
    'Start a worker with this app, or name the app that the workers run: requests for the agent are refused.',
  agent_outdated: 'Deploy this app with a higher "revision" in defineApp, or name the app that the workers run.',
  model_not_found:
    'Correct AGENTTURN_MODEL or the model of the agent, or name another endpoint: calls of the model fail.',
  target_not_served:
    'Start a worker for it with --targets, or name a target that is served in the agent: its turns wait.',
} as const satisfies Readonly<Record<string, string>>;

/** The name of what is wrong. */
export type DefectName = keyof typeof DEFECTS;

/** What a check says. */
export interface CheckResult {
  /** Null where there was nothing to be checked. */
  readonly ok: boolean | null;
  /** The name of what is wrong: one of `DEFECTS`, or a code of the catalogue; absent where nothing is. */
  readonly problem?: string;
  readonly what: string;
  /** What to do about it. */
  readonly cure?: string;
}

/** What one check found. */
export interface Finding extends CheckResult {
  readonly check: CheckName;
}

/** That something is well. */
export const well = (what: string): CheckResult => ({ ok: true, what });

/** That there was nothing to be checked. */
export const unchecked = (what: string): CheckResult => ({ ok: null, what });

/** That something is wrong. */
export const wrong = (problem: DefectName, what: string): CheckResult => ({
  ok: false,
  problem,
  what,
  cure: DEFECTS[problem],
});

/** What an error of a check says. */
export function resultOfError(error: unknown): CheckResult {
  if (!(error instanceof CodedError)) return { ok: false, problem: 'internal_error', what: String(error) };
  const { code, message, cure } = error;
  return { ok: false, problem: code, what: message, cure };
}
