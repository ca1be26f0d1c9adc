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
import { delegationTools } from '../tools/delegation.ts';
import type { ModelRequest } from './openai.ts';
import { planTool } from './plan-tool.ts';
import { type ShownCard, toMessages } from './projection.ts';
import { readResultTool } from './read-result.ts';
import { skillTool } from './skills.ts';
import { type StateFacts, stateText } from './state-block.ts';
import { submitResultTool } from './submit-result.ts';

export interface RequestParts {
  readonly snapshot: ProfileSnapshot;
  readonly resultFields: ResultFields | null;
  readonly action: CallLlmAction;
  readonly cards: readonly ShownCard[];
  readonly defaultModel: string;
  readonly facts: StateFacts;
  /** Which attempt at this step it is, from 1: decides when the fallback model takes over. */
  readonly attempt: number;
}

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

function modelName({ snapshot, defaultModel, attempt }: RequestParts): string {
  const { name, fallback } = snapshot.profile.model;
  return fallback && attempt > fallback.afterFailures ? fallback.name : (name ?? defaultModel);
}

export const offeredNames = (request: ModelRequest): Set<string> =>
  new Set(request.tools?.flatMap((tool) => (tool.type === 'function' ? [tool.function.name] : [])));

function offeredTools(
  { profile, tools }: ProfileSnapshot,
  resultFields: ResultFields | null,
  onlyTools: readonly string[] | undefined,
): ChatCompletionTool[] {
  const skills = skillTool(profile.skills);
  const all = [
    ...tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    ...delegationTools(profile),
    submitResultTool(resultFields),
    readResultTool,
    ...(skills ? [skills] : []),
    ...(profile.planning ? [planTool] : []),
  ];
  return all
    .filter((tool) => onlyTools === undefined || onlyTools.includes(tool.name))
    .map((tool) => ({ type: 'function', function: tool }));
}

function toolChoice(tools: readonly ChatCompletionTool[]): ChatCompletionToolChoiceOption {
  const [only] = tools;
  return tools.length === 1 && only?.type === 'function'
    ? { type: 'function', function: { name: only.function.name } }
    : 'required';
}

/** The note as a card, so that the next step renders the same conversation. */
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
