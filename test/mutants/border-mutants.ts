/** Mutants of the border between tenants, and of what an agent does by itself beside it. */
import type { Mutant } from './mutant.ts';

const BORDER = 'test/activities/store/border/border.test.ts';
const STORE = 'test/activities/store/sqlite/open.test.ts';
const DELEGATION = 'test/activities/store/turns/delegation.test.ts';

export const BORDER_MUTANTS: readonly Mutant[] = [
  {
    rule: 'A10',
    breaks: 'agents of another tenant are in view',
    file: 'activities/store/reads/border.ts',
    find: `(tenant === undefined || agent.tenant === tenant) &&`,
    replace: `(tenant === undefined || agent.tenant !== '') &&`,
    test: BORDER,
  },
  {
    rule: 'A10',
    breaks: 'turns of another tenant are in view',
    file: 'activities/store/reads/border.ts',
    find: `if (!agentPrefixes) return all(ofTenant);`,
    replace: `if (!agentPrefixes) return all([]);`,
    test: BORDER,
  },
  {
    rule: 'A10',
    breaks: 'a prefix has whatever is named like it',
    file: 'workflows/contract/border.ts',
    find: `/[A-Za-z0-9]$/.test(prefix) ?`,
    replace: `prefix === '' ?`,
    test: BORDER,
  },
  {
    rule: 'A10',
    breaks: 'what a delegation makes is of no tenant',
    file: 'activities/store/turns/delegation.ts',
    find: `{ profile: target.profile, parent, tenant: turn.tenant }`,
    replace: `{ profile: target.profile, parent, tenant: null }`,
    test: BORDER,
  },
  {
    rule: 'A10',
    breaks: 'cards of others are read by their ids',
    file: 'activities/store/bordered.ts',
    find: `if (await view.has({ cardId })) inView.push(cardId);`,
    replace: `inView.push(cardId);`,
    test: BORDER,
  },
  {
    rule: 'A11',
    breaks: 'an agent asks agents of other tenants',
    file: 'activities/store/turns/delegation.ts',
    find: `return entry?.tenant === tenant ? entry.profile : null;`,
    replace: `return tenant === '' ? null : (entry?.profile ?? null);`,
    test: BORDER,
  },
  {
    rule: 'T25',
    breaks: 'a box of one tenant is given to another one',
    file: 'activities/store/turns/at-the-border.ts',
    find: `return (whose === tenant || whose === null) && inView(reader, border, named);`,
    replace: `return inView(reader, border, named);`,
    test: BORDER,
  },
  {
    rule: 'A10',
    breaks: 'work is left for ever that a stopped turn was to go on with',
    file: 'activities/store/turns/endings.ts',
    find: `if (hasFailed(commit.termination.status)) await noteInterrupted(tx, turn);`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A10',
    breaks: 'an agent goes on with work at once that it was just stopped at',
    file: 'activities/store/agents/own-turns.ts',
    find: `.where('continued_revision', '>', INTERRUPTED)`,
    replace: ``,
    test: STORE,
  },
  {
    rule: 'A11',
    breaks: 'the end of a delegated turn wakes nobody that does not wait for it',
    file: 'activities/store/turns/turns.ts',
    find: `settlement: origin?.awaited || origin?.isReported ? 'pending' : null,`,
    replace: `settlement: origin?.awaited ? 'pending' : null,`,
    test: DELEGATION,
  },
  {
    rule: 'A11',
    breaks: 'a turn that was stopped with its parent wakes it',
    file: 'activities/store/turns/settlements.ts',
    find: `if (isOneShotAgent(head.agent_id) || isStopped ||`,
    replace: `if (isOneShotAgent(head.agent_id) ||`,
    test: DELEGATION,
  },
];
