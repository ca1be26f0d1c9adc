/** What a model call cost. */
import type { Usage } from '../../workflows/protocol/turn.ts';
import type { ModelPrice } from '../app/app.ts';

const MILLION = 1_000_000;

/** Null when the model has no price, or nobody counted the tokens (W17). Providers report dated names: `gpt-5-mini-2025-08-07` costs what `gpt-5-mini` does. */
export function costOf(
  prices: ReadonlyMap<string, ModelPrice>,
  models: readonly string[],
  usage: Usage,
): number | null {
  const price = models.map((model) => prices.get(model)).find((found) => found !== undefined);
  if (!price || usage.estimated) return null;
  const fresh = usage.input - usage.cached;
  return (
    (fresh * price.input + usage.cached * (price.cachedInput ?? price.input) + usage.output * price.output) / MILLION
  );
}
