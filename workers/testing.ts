/** `agentturn/testing`: a model that answers as a test tells it to, on the wire that real models speak. */
import './demand-node.ts';

export type { ModelAnswer } from './model-server/completion.ts';
export {
  attempts,
  type Script,
  type ScriptedModelOptions,
  type ScriptedServer,
  type ScriptStep,
  startScriptedModel,
} from './model-server/scripted.ts';
export type { AnswerFunction } from './model-server/wire.ts';
