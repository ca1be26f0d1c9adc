/** The floor's activities: the same model client and the same tool functions as ours, and nothing else. */
import { Context } from '@temporalio/activity';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import type { App } from '../../activities/app/app.ts';
import type { Model } from '../../activities/llm/model.ts';
import { offeredBuiltins } from '../../activities/tools/builtin/registry.ts';
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { FloorActivities, FloorMessage } from './workflow.ts';

export function floorActivities(model: Model, app: App): FloorActivities {
  const specs = [...app.tools.values()].map(({ spec: { name, description, parameters } }) => ({
    name,
    description,
    parameters,
  }));
  // The same tools on the wire as an agent's request has them.
  const builtins = [...app.agents.values()].flatMap(({ profile }) => offeredBuiltins({ profile, resultFields: null }));
  const submission = builtins.filter(({ name }) => name === SUBMIT_RESULT).slice(0, 1);
  const tools = [...specs, ...submission].map((tool): ChatCompletionTool => ({ type: 'function', function: tool }));
  return {
    async floorModel(messages) {
      const request = { model: model.defaultModel, messages: messages.map(toWire), tools };
      const { text, calls } = await model.stream(request, Context.current().cancellationSignal);
      return { text, calls };
    },

    async floorTool(call) {
      const tool = app.tools.get(call.name);
      if (!tool) throw new Error(`the floor has no tool ${call.name}`);
      const args = tool.parse(JSON.parse(call.arguments));
      const { cancellationSignal: signal, log: logger } = Context.current();
      const ids = { agentId: '', agentTurnId: '', turnEpoch: 1, callId: call.id, idempotencyKey: call.id };
      const request = { traceparent: null, correlationId: null, metadata: {} };
      const context = {
        ...ids,
        ...request,
        attempt: 1,
        execution: 1,
        progress: () => {},
        callbackUrl: () => '',
        logger,
        signal,
      };
      return JSON.stringify(await tool.execute(args, context));
    },
  };
}

function toWire(message: FloorMessage): ChatCompletionMessageParam {
  switch (message.role) {
    case 'user':
      return message;
    case 'tool':
      return { role: 'tool', content: message.content, tool_call_id: message.callId };
    case 'assistant':
      return {
        role: 'assistant',
        content: message.content,
        tool_calls: message.calls.map(({ id, name, arguments: args }) => ({
          id,
          type: 'function',
          function: { name, arguments: args },
        })),
      };
  }
}
