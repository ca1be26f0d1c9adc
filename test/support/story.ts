/** A story for a test that kills what tells it: an agent plans its work, waits for something outside and for a person, and comes to its end. */
import { defineAgent, defineApp } from '../../activities/app/app.ts';
import { AGENT_STATE_TOOLS } from '../../activities/tools/builtin/registry.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import type { ScriptStep } from '../../workers/model-server/scripted.ts';
import { say } from './asking.ts';

/** The app with the one agent of the story. */
export const storyApp = defineApp({
  agents: [defineAgent({ name: 'clerk', builtins: [...AGENT_STATE_TOOLS] })],
  tools: [],
});

/** What the agent waits for, as its posture says it. */
export const WAITS = {
  carrier: 'the carrier brings the desk',
  person: 'the desk has a scratch: is it kept?',
} as const;

/** What the turns deliver, in their order: those that wait say so. */
export const DELIVERED = [
  'It is planned.',
  'The desk is ordered.',
  'I wait for the carrier.',
  'It has come with a scratch.',
  'The desk stays.',
  'The bill is paid.',
] as const;

/** Holds an answer of the model back until it is opened. */
export class Gate {
  readonly #asked = Promise.withResolvers<void>();
  readonly #opened = Promise.withResolvers<void>();
  /** Resolves when the answer was asked for. */
  readonly asked: Promise<void> = this.#asked.promise;

  /** The answer once the gate is open, however often it is asked for. */
  hold(step: ModelAnswer): ScriptStep {
    return async () => {
      this.#asked.resolve();
      await this.#opened.promise;
      return step;
    };
  }

  open(): void {
    this.#opened.resolve();
  }
}

const call = (name: string, args: object, content = '') =>
  ({ kind: 'message', content, toolCalls: [{ name, arguments: args }] }) as const;

/** A call about the work item that was made first, second or third. */
const ofItem =
  (place: number, name: string, args: (workItemId: string | undefined) => object): ScriptStep =>
  ({ messages }) =>
    call(name, args([...new Set(JSON.stringify(messages).match(/work_[0-9a-f]{16}/g))][place]));
const complete = (place: number) => ofItem(place, 'complete_work_item', (work_item_id) => ({ work_item_id }));

/** What the model answers. The first answer after the planning, and the first one to what has come from outside, wait for their gates. */
export const storyScripts = (planned: Gate, delivered: Gate): Record<string, readonly ScriptStep[]> => ({
  plan: [
    call('create_work_item', { objective: '[script:order] order the desk' }),
    ofItem(0, 'create_work_item', (id) => ({ objective: '[script:delivery] see it delivered', blocked_by: [id] })),
    ofItem(1, 'create_work_item', (id) => ({ objective: '[script:bill] pay the bill', blocked_by: [id] })),
    say(DELIVERED[0]),
  ],
  order: [planned.hold(call('list_work_items', {})), complete(0), say(DELIVERED[1])],
  delivery: [
    ofItem(1, 'pick_work_item', (work_item_id) => ({ work_item_id })),
    call('wait_for', { wake: 'external', reason: WAITS.carrier, deadline_seconds: 86_400 }, DELIVERED[2]),
  ],
  carrier: [delivered.hold(call('wait_for', { wake: 'operator_input', reason: WAITS.person }, DELIVERED[3]))],
  kept: [complete(1), say(DELIVERED[4])],
  bill: [complete(2), say(DELIVERED[5])],
});
