/** What one run of the bench has measured. */
import type { AckResults } from './acks.ts';
import type { BudgetLine } from './budget.ts';
import type { Comparison } from './comparison.ts';
import type { Facts } from './facts.ts';
import type { HistoryResults } from './histories.ts';
import type { StoreKind } from './lab.ts';
import type { MemoryResults } from './memory.ts';
import type { Compared } from './workload.ts';

export interface Results {
  readonly store: StoreKind;
  readonly facts: Facts;
  readonly histories: HistoryResults;
  readonly budget: readonly BudgetLine[];
  readonly comparisons: Readonly<Record<Compared, Comparison>>;
  readonly memory: MemoryResults;
  readonly acks: { readonly idle: AckResults; readonly busy: AckResults };
  readonly seconds: number;
}
