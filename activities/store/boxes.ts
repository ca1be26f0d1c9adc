/** Input written before a request: instruction cards and context boxes. A context box is complete when it is made (T24). */
import { createBox, insertCard } from './cards.ts';
import { type StoreContext, write } from './context.ts';
import { contextBoxId, inputCardId } from './ids.ts';

export async function writeInstructionCard(ctx: StoreContext, text: string): Promise<string> {
  const cardId = inputCardId(text);
  await write(ctx, (trx) =>
    insertCard(trx, { cardId, type: 'task.instruction', content: { text }, author: 'client' }, ctx.now()),
  );
  return cardId;
}

export async function writeContextBox(ctx: StoreContext, texts: readonly string[]): Promise<string> {
  const boxId = contextBoxId(texts);
  const now = ctx.now();
  await write(ctx, async (trx) => {
    const box = { box_id: boxId, kind: 'context', owner_agent_id: null } as const;
    await createBox(trx, box, now, texts.length);
    for (const [index, text] of texts.entries()) {
      const cardId = inputCardId(text, index);
      await insertCard(trx, { cardId, type: 'context.note', content: { text }, author: 'client' }, now);
      const entry = { box_id: boxId, seq: index + 1, card_id: cardId, hidden_reason: null };
      await trx
        .insertInto('box_cards')
        .values(entry)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    }
  });
  return boxId;
}
