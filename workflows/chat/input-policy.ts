/** What is denied before any model call (C4). Pure. */
import type { InputPolicy } from '../protocol/chat.ts';

/** Why the request is denied; null when it is not. */
export function deniedBy(policy: InputPolicy | undefined, text: string): string | null {
  if (!policy) return null;
  const lower = text.toLowerCase();
  const rule = policy.deny.find(({ contains }) => contains.some((each) => lower.includes(each.toLowerCase())));
  return rule?.reason ?? null;
}
