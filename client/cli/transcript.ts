/** A transcript as lines of text: who said what, in the order of the conversation. */
import type { AskedQuestion, TranscriptEntry } from '../../workflows/contract/transcript.ts';
import { deliverableText, indent, time } from './format.ts';

const HIDDEN = { rolled_back: 'taken back', summarised: 'summarised' } as const;

/** The lines of one entry. */
export function entryLines(entry: TranscriptEntry): string[] {
  const { title, text } = shown(entry);
  const hidden = entry.hidden === null ? '' : `  (${HIDDEN[entry.hidden]}: the model does not see it any more)`;
  return [`${time(entry.at)}  ${title}${hidden}`, ...(text === '' ? [] : [indent(text, '    ')])];
}

interface Shown {
  readonly title: string;
  readonly text: string;
}

function shown(entry: TranscriptEntry): Shown {
  switch (entry.kind) {
    case 'request':
    case 'steer':
      return {
        title: entry.kind === 'request' ? 'request' : 'steer: a message for the running turn',
        text: entry.text,
      };
    case 'thought': {
      const title = `model, step ${entry.stepIndex}`;
      return { title, text: entry.refusal === undefined ? entry.text : `refused: ${entry.refusal}\n${entry.text}` };
    }
    case 'call': {
      const asked = entry.question ? `\n${questionText(entry.question)}` : '';
      return { title: `call of ${entry.tool}  ${entry.callId}`, text: `${JSON.stringify(entry.arguments)}${asked}` };
    }
    case 'result':
      return resultOf(entry);
    case 'budget':
      return { title: 'an operator is asked for more budget', text: questionText(entry) };
    case 'note':
      return { title: 'runtime', text: entry.text };
    case 'summary':
      return { title: 'summary of what came before', text: entry.text };
    case 'deliverable':
      return { title: 'deliverable', text: deliverableText(entry.deliverable) };
  }
}

function resultOf({ tool, callId, status, result, error, approval }: TranscriptEntry & { kind: 'result' }): Shown {
  const edited = approval?.arguments ? [`ran with ${JSON.stringify(approval.arguments)}`] : [];
  const failed = error ? [`${error.code}: ${error.message}`] : [];
  const value = result === undefined ? [] : [typeof result === 'string' ? result : JSON.stringify(result)];
  return { title: `result of ${tool}: ${status}  ${callId}`, text: [...edited, ...failed, ...value].join('\n') };
}

function questionText({ status, reason, approvers, deadline, answeredBy, comment, answeredAt }: AskedQuestion): string {
  const who = approvers.length > 0 ? approvers.join(' or ') : 'anybody';
  if (status === 'waiting') return `waits for approval by ${who} until ${time(deadline)}: ${reason}`;
  const by = answeredBy === null ? '' : ` by ${answeredBy}`;
  const at = answeredAt === null ? '' : ` at ${time(answeredAt)}`;
  return `asked because ${reason}\n${status}${by}${at}${comment === null ? '' : `: "${comment}"`}`;
}
