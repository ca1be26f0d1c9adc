/** A small change that breaks one rule of the turn protocol: what the tests named by that rule must notice. */
export interface Mutant {
  readonly rule: string;
  /** What happens instead of what the rule says. */
  readonly breaks: string;
  readonly file: string;
  /** Stands exactly once in the file: it is found wherever the code moves to, and a test says so when it is gone. */
  readonly find: string;
  readonly replace: string;
  /** The file whose tests named by the rule must fail. */
  readonly test: string;
  /** Of those tests, the ones whose full name also matches this: the fast ones, or those of one backend. */
  readonly only?: string;
}

/** The source with the mutant in it. Errors: the snippet is not there, or there more than once. */
export function mutated(source: string, { rule, file, find, replace }: Mutant): string {
  const parts = source.split(find);
  const [before, after] = parts;
  if (parts.length === 2 && before !== undefined && after !== undefined) return `${before}${replace}${after}`;
  throw new Error(`${rule}: ${file} has ${parts.length - 1} places like ${JSON.stringify(find)}, expected one`);
}

/** A pattern of full test names. A rule stands in the name as a word of its own: T1 is not T10. */
export const namedBy = ({ rule, only }: Pick<Mutant, 'rule' | 'only'>): string =>
  only === undefined ? `\\b${rule}\\b` : `${only}.*\\b${rule}\\b`;
