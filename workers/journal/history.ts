/** What a journal says of a session, put together so that a store which has lost the session can write it anew (C10). */
import type { BeginningLine, JournalLine, SessionLine, TerminalLine } from '../../workflows/chat/journal.ts';
import type { RestoredMessage, RestoredSession, RestoredTurn } from '../../workflows/contract/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { corrupt, SessionReader } from './session-file.ts';

/** Why a turn was closed that nothing works on any more. */
export const RECOVERED = 'recovered: the turn was open when what worked on it ended';

/** A session as its journal has it. */
export interface JournaledSession {
  readonly header: SessionLine;
  readonly session: RestoredSession;
  /** The turn that has no end in the journal: in `session` it is closed. Null where there is none. */
  readonly openTurnId: string | null;
}

/** How far a recovery goes. */
export interface RecoveryOptions {
  /** Takes the lines before one that cannot be read, and leaves the rest out; without it such a journal is not recovered. */
  readonly upToDamage?: boolean | undefined;
}

/** Reads a whole journal. Errors: `journal_corrupt`, also for a session that has no journal. */
export async function readHistory(
  folder: string,
  sessionId: string,
  { upToDamage = false }: RecoveryOptions = {},
): Promise<JournaledSession> {
  const reader = await SessionReader.open(folder, sessionId);
  if (!reader) throw corrupt(sessionId, 'the session has no journal');
  try {
    const first = await reader.first();
    if (!first) throw corrupt(reader.path, 'line 1 cannot be read: it is torn');
    const history = new History();
    try {
      for await (const { line } of reader.lines(first.end, { place: 2, tornToo: true })) history.add(line);
    } catch (error) {
      if (!upToDamage || !(error instanceof CodedError) || error.code !== 'journal_corrupt') throw error;
    }
    return history.of(first.line);
  } finally {
    await reader.close();
  }
}

/** A turn that has begun, and the place of the last message that had come by then. */
type BegunTurn = BeginningLine & { readonly messagesBefore: number };

/** Lines of a session, one after the other. */
class History {
  readonly #messages = new Map<string, RestoredMessage>();
  readonly #turns: RestoredTurn[] = [];
  #open: BegunTurn | null = null;
  #messagesBefore = 0;
  #lastSeq = 0;

  /** Takes the next line; a repetition changes nothing. */
  add(line: JournalLine): void {
    if (line.seq <= this.#lastSeq) return;
    this.#lastSeq = line.seq;
    switch (line.type) {
      case 'message': {
        const { messageSeq: seq, policy, message, placement, reason = '' } = line;
        this.#messagesBefore = Math.max(this.#messagesBefore, seq);
        this.#messages.set(message.eventId, {
          seq,
          policy,
          message,
          rejected: placement === 'rejected' ? reason : null,
        });
        return;
      }
      case 'turn':
        this.#open = { ...line, messagesBefore: this.#messagesBefore };
        return;
      case 'terminal':
        this.#end(line);
        for (const { eventId, reason } of line.rejected ?? []) this.#reject(eventId, reason);
    }
  }

  of(header: SessionLine): JournaledSession {
    const { sessionId, of, chatId, profile, tenant = null } = header;
    const open = this.#open;
    const turns = open ? [...this.#turns, closedTurn(open)] : this.#turns;
    const messages = [...this.#messages.values()].sort((a, b) => a.seq - b.seq);
    return {
      header,
      session: { sessionId, of, chatId, profile, tenant, messages, turns },
      openTurnId: open?.turnId ?? null,
    };
  }

  #end(line: TerminalLine): void {
    const begun = this.#open?.turnId === line.turnId ? this.#open : null;
    // Of what came while it was open it was steered by some; those too are there when it is leased again.
    const messages = line.eventIds.map((id) => this.#messages.get(id)?.seq ?? 0);
    const { messagesBefore } = begun ?? { messagesBefore: this.#messagesBefore };
    this.#turns.push(endedTurn(line, Math.max(messagesBefore, ...messages)));
    if (begun) this.#open = null;
  }

  #reject(eventId: string, reason: string): void {
    const message = this.#messages.get(eventId);
    if (message) this.#messages.set(eventId, { ...message, rejected: reason });
  }
}

const endedTurn = (line: TerminalLine, messagesBefore: number): RestoredTurn => ({
  messagesBefore,
  agentTurnId: line.turnId,
  turnEpoch: line.epoch,
  eventIds: line.eventIds,
  traceId: line.traceId,
  correlationId: line.correlationId,
  status: line.outcome,
  errorCode: line.failure?.code ?? null,
  reason: line.failure?.reason ?? null,
  deliverable: line.deliverable,
  rolledBack: line.rolledBack ?? false,
});

/** What it was steered by it may not have been told, and makes the next turn. */
const closedTurn = ({ turnId, epoch, eventIds, traceId, correlationId, messagesBefore }: BegunTurn): RestoredTurn => ({
  messagesBefore,
  agentTurnId: turnId,
  turnEpoch: epoch,
  eventIds,
  traceId,
  correlationId,
  status: 'failed',
  errorCode: 'report_missing',
  reason: RECOVERED,
  deliverable: null,
  rolledBack: false,
});
