/** Functions of the store, which take its context first, as the methods of an interface, which do not. */
import type { StoreContext } from './context.ts';

/** A function of the store. */
type StoreFunction = (ctx: StoreContext, ...args: never[]) => unknown;

/** A function of the store without its context. */
type Method<F> = F extends (ctx: StoreContext, ...args: infer Args) => infer Result ? (...args: Args) => Result : never;

/** The same functions under the same names, each with the context given. */
export const bind = <F extends Readonly<Record<string, StoreFunction>>>(
  ctx: StoreContext,
  functions: F,
): { readonly [K in keyof F]: Method<F[K]> } => {
  const methods = Object.entries(functions).map(([name, run]) => [name, (...args: never[]) => run(ctx, ...args)]);
  return Object.fromEntries(methods) as { readonly [K in keyof F]: Method<F[K]> };
};
