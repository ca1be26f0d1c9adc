/** `turn tree`. */
import { readCallTree } from '../call-tree.ts';
import { noTurn } from '../no-turn.ts';
import { treeLines } from './call-tree.ts';
import type { CliEnvironment, CommonOptions } from './environment.ts';

/** `turn tree`: draws what a request caused. Resolves with the exit code. Errors: `turn_not_found`. */
export async function printTree(
  { io, openStore }: CliEnvironment,
  turnId: string,
  options: CommonOptions,
): Promise<number> {
  const store = await openStore(options);
  try {
    const tree = await readCallTree(store, turnId);
    if (!tree) throw noTurn(turnId);
    for (const line of options.json ? [JSON.stringify(tree)] : treeLines(tree)) io.out(line);
    return 0;
  } finally {
    await store.close();
  }
}
