/** What a model call cost (W17). */
import type { Usage } from '../../workflows/protocol/turn.ts';
import type { ModelPrice } from '../app/app.ts';

const MILLION = 1_000_000;

/**
 * The cost in the currency of the price list; null when no name of the model has a price, or when the provider did not count the tokens. The
 * first of `models` that has a price decides: providers report dated names, and `gpt-5-mini-2025-08-07` costs what `gpt-5-mini` does.
 */
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
