/** The transcript of a turn, of which a page is held at a time. */
import type { TranscriptEntry } from '../workflows/contract/transcript.ts';
import type { ReadStore } from '../workflows/contract/views.ts';

/** In the order of the conversation, up to what is there when the last page is read; none for a turn that was never accepted. */
export async function* everyEntry(
  store: Pick<ReadStore, 'readTranscript'>,
  agentTurnId: string,
): AsyncGenerator<TranscriptEntry, void> {
  for (let after = 0; ; ) {
    const page = await store.readTranscript(agentTurnId, { after });
    const last = page?.at(-1);
    if (!page || !last) return;
    yield* page;
    after = last.seq;
  }
}
