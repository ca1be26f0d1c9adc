/** What of a proposed call travels to the kernel: a digest of its arguments, and the values that rules look at (K4). */
import { type ArgumentFacts, factsAt } from '../../workflows/kernel/governance.ts';
import type { GovernancePolicy } from '../../workflows/protocol/governance.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { canonicalDigest } from '../canonical.ts';

const DIGEST_LENGTH = 16;

/** The same for the same arguments, in whatever order the model wrote them. */
export function digestOf(args: JsonObject): string {
  return canonicalDigest(args).slice(0, DIGEST_LENGTH);
}

/** Nothing at all when there are no rules, or none looks at arguments. */
export function factsOf(
  policy: GovernancePolicy | undefined,
  tool: string,
  args: JsonObject,
): { readonly facts?: ArgumentFacts } {
  if (!policy) return {};
  const facts = factsAt(policy, tool, args);
  const { values, oversized, unreadable = [] } = facts;
  return Object.keys(values).length + oversized.length + unreadable.length > 0 ? { facts } : {};
}
