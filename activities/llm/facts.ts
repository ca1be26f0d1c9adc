/** What the kernel learns of the arguments of a proposed call: their digest, and the values that rules judge (K4). */
import { type ArgumentFacts, factsAt } from '../../workflows/kernel/governance.ts';
import type { GovernancePolicy } from '../../workflows/protocol/governance.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { canonicalDigest } from '../canonical.ts';

/** Hex digits of the digest: enough to tell the calls of one turn apart. */
const DIGEST_LENGTH = 16;

/** A digest that is the same for the same arguments, in whatever order the model wrote them. */
export function digestOf(args: JsonObject): string {
  return canonicalDigest(args).slice(0, DIGEST_LENGTH);
}

/** The values that rules judge of a call, under the key `facts`; an empty object when no rule is about the arguments of this tool. */
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
