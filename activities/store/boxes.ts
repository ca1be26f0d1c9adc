/** Input written before a request: instruction cards and context boxes. A context box is complete when it is made (T24). */
import { v7 } from 'uuid';
import { appendToBox, createBox, insertCard } from './cards.ts';
import { type StoreContext, write } from './context.ts';

export async function writeInstructionCard(ctx: StoreContext, text: string): Promise<string> {
  const cardId = v7();
  await write(ctx, (trx) =>
    insertCard(trx, { cardId, type: 'task.instruction', content: { text }, author: 'client' }, ctx.now()),
  );
  return cardId;
}

export async function writeContextBox(ctx: StoreContext, texts: readonly string[]): Promise<string> {
  const boxId = v7();
  const now = ctx.now();
  await write(ctx, async (trx) => {
    await createBox(trx, { box_id: boxId, kind: 'context', owner_agent_id: null }, now);
    for (const text of texts) {
      const cardId = v7();
      await insertCard(trx, { cardId, type: 'context.note', content: { text }, author: 'client' }, now);
      await appendToBox(trx, boxId, cardId);
    }
  });
  return boxId;
}
