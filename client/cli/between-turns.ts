/** What happens to an agent between its turns, as lines for people. */
import type {
  ClosureEvent,
  ContinuationEvent,
  WaitEvent,
  WakeEvent,
  WorkEvent,
} from '../../workflows/contract/events.ts';

/** An event of what an agent has between its turns, in words. */
export function betweenTurnsText(event: WorkEvent | WaitEvent | WakeEvent | ClosureEvent | ContinuationEvent): string {
  switch (event.type) {
    case 'work': {
      const { change, applied, workItemId, waitId, timerId, triggerId } = event.payload;
      const of = [workItemId, waitId, timerId, triggerId].filter((id) => id !== undefined).join(' ');
      return `${change} ${of}${applied ? '' : ': not applied, the work was changed meanwhile'}`;
    }
    case 'wait': {
      const { waitId, kind, phase, by } = event.payload;
      return `wait for ${kind} ${phase} by ${by} (${waitId})`;
    }
    case 'wake': {
      const { kind, source, disposition } = event.payload;
      return `${kind} from ${source}: ${disposition}`;
    }
    case 'closure': {
      const { outcome, waitingReason, evidence } = event.payload;
      return `${outcome}${waitingReason === undefined ? '' : `, ${waitingReason}`}: ${evidence.join('; ')}`;
    }
    case 'continuation': {
      const { triggerKind, class: continuation, sources } = event.payload;
      return `${continuation} by ${triggerKind} of ${sources.join(', ')}`;
    }
  }
}
