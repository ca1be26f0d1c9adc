/**
 * The kernel's state in the short form in which it crosses to a burst, and stays in the history: its cards as one text, some 12 bytes for a
 * step in place of 40. Pure, and without loss.
 */
import type { ShortState } from '../contract/burst.ts';
import type { Handle, HandleRole } from '../kernel/handles.ts';
import type { KernelState } from '../kernel/state.ts';
import { CodedError } from '../protocol/failures.ts';

const LETTERS: Readonly<Record<HandleRole, string>> = { user: 'u', assistant: 'a', tool: 't', note: 'n', summary: 's' };
const ROLES = new Map((Object.keys(LETTERS) as HandleRole[]).map((role) => [LETTERS[role], role]));
const CARD = /^([a-z])(-?\d*)\.(\d+)$/;

/** Each card is its role, how far it stands behind the one before it (nothing when right behind it), and its tokens. */
export function shortState({ handles, ...state }: KernelState): ShortState {
  let last = 0;
  const cards = handles.map(([seq, role, tokens]) => {
    const behind = seq - last;
    last = seq;
    return `${LETTERS[role]}${behind === 1 ? '' : behind}.${tokens}`;
  });
  return { ...state, handles: cards.join() };
}

/** The state as it was. Errors: `protocol_violation` for what `shortState` has not written. */
export function wholeState({ handles, ...state }: ShortState): KernelState {
  let last = 0;
  const cards = handles === '' ? [] : handles.split(',');
  return {
    ...state,
    handles: cards.map((card): Handle => {
      const [, letter = '', behind = '', tokens = ''] = CARD.exec(card) ?? [];
      const role = ROLES.get(letter);
      if (!role) throw new CodedError('protocol_violation', `a card of the kernel's state was not understood: ${card}`);
      last += behind === '' ? 1 : Number(behind);
      return [last, role, Number(tokens)];
    }),
  };
}
