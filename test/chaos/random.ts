/** Seeded randomness. Each part of a run draws from a stream of its own, so that how often one draws does not change another. */
export interface Random {
  /** At least 0, below 1. */
  next(): number;
  /** A whole number, both ends included. */
  int(from: number, to: number): number;
  chance(share: number): boolean;
  /** Undefined only for an empty list. */
  pick<T>(items: readonly T[]): T | undefined;
  /** Picks a key by its weight. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K;
}

/**
 * Draws the keys like cards from a deck that has each as often as its number says, shuffled anew when it is used up: no key is missing for
 * long. The deck must not be empty.
 */
export function deckOf<K extends string>(counts: Readonly<Record<K, number>>, random: Random): () => K {
  const entries = Object.entries(counts) as [K, number][];
  const all = entries.flatMap(([key, count]) => Array<K>(count).fill(key));
  let left: K[] = [];
  return () => {
    if (left.length === 0) left = [...all];
    const [drawn] = left.splice(random.int(0, left.length - 1), 1);
    if (drawn !== undefined) return drawn;
    throw new RangeError('nothing to draw from');
  };
}

export function randomOf(seed: number, stream: string): Random {
  let state = hash(`${seed}/${stream}`);
  const next = (): number => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    int,
    chance: (share) => next() < share,
    pick: (items) => items[int(0, items.length - 1)],
    weighted: (weights) => byWeight(weights, next()),
  };
}

function byWeight<K extends string>(weights: Readonly<Record<K, number>>, at: number): K {
  const entries = Object.entries(weights) as [K, number][];
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
  let left = at * total;
  for (const [key, weight] of entries) {
    left -= weight;
    if (left < 0) return key;
  }
  const [first] = entries;
  if (first) return first[0];
  throw new RangeError('nothing to pick from');
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const char of text) value = Math.imul(value ^ (char.codePointAt(0) ?? 0), 0x01000193);
  return value;
}
