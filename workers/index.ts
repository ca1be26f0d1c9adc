/** `agentturn/worker`: start and stop workers in a process of your own. */
import './demand-node.ts';

export type { ModelOptions } from '../activities/llm/openai.ts';
export type { WorkflowCode } from './bundle.ts';
export {
  type CallbackOptions,
  type RunningWorker,
  startWorker,
  type WorkerCapacity,
  type WorkerDeps,
} from './worker.ts';
