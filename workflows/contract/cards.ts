/** Cards and boxes outside a turn's own writing: input for a request, what an agent remembers, and what a prompt is made of (T24, T25). */
import type { BoxExtent } from '../kernel/handles.ts';
import type { Card } from '../protocol/cards.ts';
import type { JsonValue } from '../protocol/json.ts';

/** A card and its place in a box. */
export interface BoxEntry {
  readonly seq: number;
  readonly card: Card;
}

/** What a box is. */
export interface BoxView {
  readonly kind: 'output' | 'context';
  /** The agent whose turns write to it; null for a context box, which nobody writes to. */
  readonly ownerAgentId: string | null;
}

/** Which cards of a box are read. */
export interface BoxPage {
  /** Reads cards behind this place. */
  readonly after: number;
  /** The most cards to read; a card may hold a megabyte. */
  readonly limit: number;
}

/** Cards that no turn writes, and what is in boxes. */
export interface CardStore {
  /**
   * Writes a text as an instruction card for a later request, and returns its id. Idempotent by the text: the same text is the same card.
   * Errors: `payload_too_large`.
   */
  writeInstructionCard(text: string, tenant?: string | null): Promise<string>;
  /**
   * Writes a value as the output of a tool, for a later report that names the card, and returns its id (T18). Idempotent by the value's
   * JSON. Errors: `payload_too_large`.
   */
  writeOutputCard(value: JsonValue, tenant?: string | null): Promise<string>;
  /**
   * Writes texts as cards of a new context box, which is complete and read-only from then on, and returns its id. Idempotent by the texts
   * in their order. Errors: `payload_too_large`.
   */
  writeContextBox(texts: readonly string[], tenant?: string | null): Promise<string>;
  /**
   * Makes a new output box of these cards, in this order, and moves the agent's pointer to it; returns the new box (T25). It is a
   * comparison and an exchange: refused with `box_unavailable` when the agent does not remember `expectedBoxId` any more, or one of the
   * cards is not there, and with `agent_busy` while a turn of the agent is open.
   */
  replaceOutputBox(agentId: string, expectedBoxId: string, cardIds: readonly string[]): Promise<string>;
  /** Reads these cards, in this order, each once; those that are not there are left out. */
  readCards(cardIds: readonly string[]): Promise<readonly Card[]>;
  /** Reads what a box is; null when there is none. */
  findBox(boxId: string): Promise<BoxView | null>;
  /**
   * Reads a box in its order: what is in view, with `all` also what was summarised or taken back; all of it, or a page. A box that is not there
   * is empty.
   */
  readBox(boxId: string, all?: boolean, page?: BoxPage): Promise<readonly BoxEntry[]>;
  /** Reads the cards in view at these places, in order and each once: a card that is named again stands at its last place (T24). */
  readExtents(extents: readonly BoxExtent[]): Promise<readonly Card[]>;
}
