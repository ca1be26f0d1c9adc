/** The model request of one step: system text, rendered cards, tools. Its prefix is the same bytes from step to step (W18). */
import type {
  ChatCompletionMessageParam,
  ChatCompletionTool,
  ChatCompletionToolChoiceOption,
} from 'openai/resources/chat/completions';
import type { StepCommit } from '../../workflows/contract/steps.ts';
import type { CallLlmAction } from '../../workflows/kernel/actions.ts';
import type { Note } from '../../workflows/kernel/model-call.ts';
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { ResultFields } from '../../workflows/protocol/enqueue.ts';
import type { ProfileSnapshot } from '../../workflows/protocol/profile.ts';
import { offeredBuiltins } from '../tools/builtin/registry.ts';
import type { ModelRequest } from './model.ts';
import { type ShownCard, toMessages } from './projection.ts';
import { type StateFacts, stateText } from './state-block.ts';

/** What a request is made of. */
export interface RequestParts {
  readonly snapshot: ProfileSnapshot;
  /** Result fields of the request or else of the profile; null when there are none. */
  readonly resultFields: ResultFields | null;
  /** What the kernel asks for: the tools to offer, the note, what stands last. */
  readonly action: CallLlmAction;
  /** The conversation, in its order. */
  readonly cards: readonly ShownCard[];
  /** Name of the model for profiles that name none. */
  readonly defaultModel: string;
  readonly facts: StateFacts;
  /** How often the provider has failed the step: it decides when the fallback model takes over (W14). */
  readonly failures: number;
}

/** The body of the request, the same for the same parts. */
export function buildRequest(parts: RequestParts): ModelRequest {
  const { snapshot, resultFields, action, cards } = parts;
  const { model, instructions } = snapshot.profile;
  const tools = offeredTools(snapshot, resultFields, action.onlyTools);
  const note = noteCard(action.note);
  const system: ChatCompletionMessageParam[] = instructions.trim() ? [{ role: 'system', content: instructions }] : [];
  const state = stateText(action.stateBlock ?? [], parts.facts);
  const closing = [note?.text ?? '', state]
    .filter((text) => text !== '')
    .map((content): ChatCompletionMessageParam => ({ role: 'system', content }));
  return {
    model: modelName(parts),
    messages: [...system, ...toMessages(cards, snapshot.profile.context.windowTokens), ...closing],
    ...(tools.length > 0 ? { tools } : {}),
    ...(action.requireTool && tools.length > 0 ? { tool_choice: toolChoice(tools) } : {}),
    ...(model.temperature === undefined ? {} : { temperature: model.temperature }),
    ...(model.maxTokens === undefined ? {} : { max_completion_tokens: model.maxTokens }),
    ...(model.reasoningEffort === undefined ? {} : { reasoning_effort: model.reasoningEffort }),
  };
}

function modelName({ snapshot, defaultModel, failures }: RequestParts): string {
  const { name, fallback } = snapshot.profile.model;
  return fallback && failures >= fallback.afterFailures ? fallback.name : (name ?? defaultModel);
}

/** Names of the tools that a request offers. */
export const offeredNames = (request: ModelRequest): Set<string> =>
  new Set(request.tools?.flatMap((tool) => (tool.type === 'function' ? [tool.function.name] : [])));

/** The tools of the app, then the built-in ones, less those that the kernel leaves out (K8). */
function offeredTools(
  { profile, tools }: ProfileSnapshot,
  resultFields: ResultFields | null,
  onlyTools: readonly string[] | undefined,
): ChatCompletionTool[] {
  const all = [
    ...tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    ...offeredBuiltins({ profile, resultFields }),
  ];
  return all
    .filter((tool) => onlyTools === undefined || onlyTools.includes(tool.name))
    .map((tool) => ({ type: 'function', function: tool }));
}

/** The model must call a tool; the one that is left is named (W13). */
function toolChoice(tools: readonly ChatCompletionTool[]): ChatCompletionToolChoiceOption {
  const [only] = tools;
  return tools.length === 1 && only?.type === 'function'
    ? { type: 'function', function: { name: only.function.name } }
    : 'required';
}

/** The note as a card, so that the next step renders the same conversation; null when there is no note. */
export function noteCard(note: Note | undefined): StepCommit['note'] {
  switch (note?.kind) {
    case 'must_end_with':
      return {
        type: 'sys.must_end_with_required',
        text: `This task must be ended by calling one of: ${note.tools.join(', ')}. Call it now.`,
      };
    case 'final_report':
      return {
        type: 'sys.final_report',
        text: `${note.reason}: no further tools can be run. Report now what you have, by ${SUBMIT_RESULT} if it is offered, else as text.`,
      };
    case 'rolled_back':
      return {
        type: 'sys.rolled_back',
        text: `Your last step was taken back, and what it did to this conversation with it: ${note.reason}. Go on another way.`,
      };
    case 'go_on':
      return {
        type: 'sys.go_on',
        text: 'Your answer was cut off by the output limit. Go on exactly where it stopped, without repeating anything.',
      };
    default:
      return null;
  }
}
