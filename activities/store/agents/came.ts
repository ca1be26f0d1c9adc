/** What has come for an agent and made no turn yet, as its head keeps it. What comes again from the same source is one thing. */
import type { Came } from '../../../workflows/contract/agent-work.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';

/** What has come, the one last that came last. */
export const cameOf = ({ came }: Pick<HeadRow, 'came'>): readonly Came[] => (came === null ? [] : decoded(came));

/** What is known of the same source, to which something else that comes adds; undefined when it is the first. */
const knownOf = (head: Pick<HeadRow, 'came'>, { kind, source }: Pick<Came, 'kind' | 'source'>): Came | undefined =>
  cameOf(head).find((each) => isSame(each, { kind, source }));

/** How often something has come from that source that made no turn yet. */
export const countOf = (head: Pick<HeadRow, 'came'>, of: Pick<Came, 'kind' | 'source'>): number =>
  knownOf(head, of)?.count ?? 0;

/** Whether something has come from that source before, and made no turn yet. */
export const isKnown = (head: Pick<HeadRow, 'came'>, came: Came): boolean => knownOf(head, came) !== undefined;

/** The column with one thing more: of several from the same source the last counts. */
export function withCame(head: Pick<HeadRow, 'came'>, came: Came): NonNullable<HeadRow['came']> {
  const known = knownOf(head, came);
  const one = { ...came, count: came.count + (known?.count ?? 0), cardId: came.cardId ?? known?.cardId ?? null };
  return encoded([...cameOf(head).filter((each) => !isSame(each, came)), one]);
}

type Sourced = Pick<Came, 'kind' | 'source'>;
const isSame = (a: Sourced, b: Sourced): boolean => a.kind === b.kind && a.source === b.source;
