/** What has come for an agent and made no turn yet, as its head keeps it. What comes again from the same source is one thing. */
import type { Came } from '../../../workflows/contract/agent-work.ts';
import { decodedOr, encoded } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';

type Holder = Pick<HeadRow, 'came'>;
type Sourced = Pick<Came, 'kind' | 'source'>;

/** What has come, the one last that came last. */
export const cameOf = ({ came }: Holder): readonly Came[] => (came === null ? [] : decodedOr(came, []));

/** What has come from that source before and made no turn yet; undefined when nothing has. */
export const cameBefore = (head: Holder, of: Sourced): Came | undefined =>
  cameOf(head).find((each) => isSame(each, of));

/** The column with one thing more: of several from the same source the last counts. */
export function withCame(head: Holder, came: Came): NonNullable<HeadRow['came']> {
  const known = cameBefore(head, came);
  // A turn ends once, however often it is told.
  const count = came.kind === 'task_result' ? 1 : came.count + (known?.count ?? 0);
  const one = { ...came, count, cardId: came.cardId ?? known?.cardId ?? null };
  return encoded([...cameOf(head).filter((each) => !isSame(each, came)), one]);
}

const isSame = (a: Sourced, b: Sourced): boolean => a.kind === b.kind && a.source === b.source;
