import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ModelRequest } from '../../../activities/llm/model.ts';
import { buildRequest, noteCard, offeredNames } from '../../../activities/llm/request.ts';
import type { StateFacts } from '../../../activities/llm/state-block.ts';
import { parseChatRequest } from '../../../workers/model-server/chat-request.ts';
import { checkConversation } from '../../../workers/model-server/conversation.ts';
import type { CallLlmAction } from '../../../workflows/kernel/actions.ts';
import type { Note } from '../../../workflows/kernel/model-call.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../../workflows/protocol/enqueue.ts';
import { type ProfileInput, type ProfileSnapshot, profileSchema } from '../../../workflows/protocol/profile.ts';
import { card, conversations, deliverable, instruction, proposed, result, thought } from './cards.ts';

const snapshot = (
  profile: Partial<ProfileInput> = {},
  tools: readonly string[] = ['add', 'look'],
): ProfileSnapshot => ({
  profile: profileSchema.parse({ name: 'tester', ...profile }),
  tools: tools.map((name) => ({
    name,
    description: `does ${name}`,
    parameters: { type: 'object', properties: {} },
    afterExecution: 'continue',
    timeoutMs: 1,
    sideEffects: 'none',
  })),
  builtins: [],
  warnings: [],
});

interface Parts {
  readonly profile?: Partial<ProfileInput>;
  readonly tools?: readonly string[];
  readonly cards?: readonly Card[];
  readonly action?: Partial<CallLlmAction>;
  readonly resultFields?: ResultFields;
  readonly facts?: Partial<StateFacts>;
  readonly failures?: number;
}

/** The request, after a provider's checks. */
function requestOf({ profile, tools, cards, action, resultFields, facts, failures = 0 }: Parts = {}): ModelRequest {
  const request = buildRequest({
    snapshot: snapshot(profile, tools),
    resultFields: resultFields ?? null,
    action: { type: 'call_llm', stepIndex: 1, plan: { ranges: [] }, room: 0, ...action },
    cards: cards ?? [instruction('do it')],
    facts: { criteria: [], userMessages: [], plan: null, ...facts },
    defaultModel: 'default-model',
    failures,
  });
  const parsed = parseChatRequest(JSON.parse(JSON.stringify(request)));
  expect(parsed.ok ? checkConversation(parsed.request) : parsed.error).toBeUndefined();
  return request;
}

describe('a model request', () => {
  test('is nothing but model, messages and tools where the profile says nothing more', () => {
    const request = requestOf();
    expect(Object.keys(request)).toEqual(['model', 'messages', 'tools']);
    expect(request).toMatchObject({ model: 'default-model', messages: [{ role: 'user', content: 'do it' }] });
  });

  test('carries the options of the profile', () => {
    const model = { name: 'big', temperature: 0, maxTokens: 100, reasoningEffort: 'low' } as const;
    expect(requestOf({ profile: { model } })).toMatchObject({
      model: 'big',
      temperature: 0,
      max_completion_tokens: 100,
      reasoning_effort: 'low',
    });
  });

  test('goes to the fallback model once the provider has failed as often as it says, and not before (W14)', () => {
    const model = (failures: number, name?: string) => {
      const fallback = { name: 'other', afterFailures: 2 };
      return requestOf({ profile: { model: { ...(name ? { name } : {}), fallback } }, failures }).model;
    };
    expect([0, 1, 2, 3].map((failures) => model(failures, 'big'))).toEqual(['big', 'big', 'other', 'other']);
    expect([1, 2].map((failures) => model(failures))).toEqual(['default-model', 'other']);
    expect(requestOf({ failures: 99 }).model).toBe('default-model');
  });

  test('opens with the instructions of the profile, unless they are blank (K14)', () => {
    const roles = (instructions: string) =>
      requestOf({ profile: { instructions } }).messages.map((message) => message.role);
    expect(roles('Be brief.')).toEqual(['system', 'user']);
    expect(roles(' \n')).toEqual(['user']);
  });
});

describe('the tools of a request', () => {
  test('are those of the profile in their order, then the built-in ones (W12)', () => {
    const request = requestOf();
    expect([...offeredNames(request)]).toEqual(['add', 'look', 'submit_result', 'read_result']);
    expect(request.tools?.[0]).toEqual({
      type: 'function',
      function: { name: 'add', description: 'does add', parameters: { type: 'object', properties: {} } },
    });
    expect(request).not.toHaveProperty('tool_choice');
  });

  test('have those for skills, plans and delegation where the profile has some, and the skills are sorted (K8)', () => {
    const skill = (name: string) => ({ name, description: `for ${name}`, content: 'c' });
    const skills = [skill('write'), skill('debug')];
    const request = requestOf({ profile: { skills, planning: true, delegationPolicy: { profiles: ['q'] } } });
    expect([...offeredNames(request)].sort()).toEqual([
      'add',
      'ask_expert',
      'delegate_async',
      'look',
      'read_result',
      'skill',
      'submit_result',
      'update_plan',
    ]);
    const offered = request.tools?.flatMap((tool) => (tool.type === 'function' ? [tool.function] : []));
    expect(offered?.find(({ name }) => name === 'skill')?.description).toMatch(
      /- debug: for debug\n- write: for write$/,
    );
  });

  test('are only the named ones where the kernel restricts them, and the model must call one (W13)', () => {
    const request = requestOf({ action: { onlyTools: ['add', 'submit_result'], requireTool: true } });
    expect([...offeredNames(request)]).toEqual(['add', 'submit_result']);
    expect(request.tool_choice).toBe('required');
  });

  test('force the one that is left (W13)', () => {
    const request = requestOf({ action: { onlyTools: ['look'], requireTool: true } });
    expect(request.tool_choice).toEqual({ type: 'function', function: { name: 'look' } });
  });

  test('are left out where none is offered, and so is the choice among them (K9)', () => {
    const request = requestOf({ action: { onlyTools: [], requireTool: true } });
    expect(Object.keys(request)).toEqual(['model', 'messages']);
    expect(offeredNames(request).size).toBe(0);
  });
});

describe('the note of a step', () => {
  const notes: readonly Note[] = [
    { kind: 'must_end_with', tools: ['publish', 'reject'] },
    { kind: 'final_report', reason: '2 steps are used up' },
    { kind: 'rolled_back', reason: 'a failed (broken)' },
    { kind: 'go_on' },
  ];

  test.each(notes)(
    'of kind $kind is said last, in the words of its card, so that the next step says it again',
    (note) => {
      const [, said] = requestOf({ action: { note } }).messages;
      const kept = noteCard(note);
      expect(said).toEqual({ role: 'system', content: kept?.text });
      const again = kept ? [instruction('do it'), card(kept.type, { text: kept.text })] : [];
      expect(requestOf({ cards: again }).messages[1]).toEqual(said);
    },
  );

  test('names what the model must know (W13, K9, K13)', () => {
    const [ending, report, back] = notes.map((note) => noteCard(note));
    expect(ending).toEqual({ type: 'sys.must_end_with_required', text: expect.stringContaining('publish, reject') });
    expect(report).toEqual({ type: 'sys.final_report', text: expect.stringContaining('2 steps are used up') });
    expect(back).toEqual({ type: 'sys.rolled_back', text: expect.stringContaining('a failed (broken)') });
    expect(noteCard(undefined)).toBeNull();
  });
});

describe('from step to step', () => {
  /** The messages of the first are those of the second up to where they end, byte for byte. */
  function expectPrefix(first: ModelRequest, second: ModelRequest): void {
    const prefix = JSON.stringify(first.messages).slice(0, -1);
    expect(JSON.stringify(second.messages).startsWith(prefix)).toBe(true);
    expect(JSON.stringify(second.tools)).toBe(JSON.stringify(first.tools));
  }

  const note = fc.constantFrom<Note | undefined>(undefined, undefined, { kind: 'must_end_with', tools: ['add'] });
  const steps = fc.array(fc.record({ note, said: fc.string(), calls: fc.integer({ min: 1, max: 3 }) }), {
    maxLength: 5,
  });

  test('the prefix stays the same bytes, notes included, over any earlier turns (W18)', () => {
    fc.assert(
      fc.property(conversations, steps, fc.string(), (earlier, rounds, instructions) => {
        let cards: readonly Card[] = [...earlier, instruction('now', 'now')];
        let last: ModelRequest | undefined;
        for (const [index, round] of rounds.entries()) {
          const action = round.note ? { note: round.note } : {};
          const request = requestOf({ profile: { instructions }, cards, action });
          if (last) expectPrefix(last, request);
          last = request;
          const kept = noteCard(round.note);
          const calls = Array.from({ length: round.calls }, (_, at) => proposed(`now.${index}.${at}`));
          const said = round.said && `${round.said} now.${index}`;
          cards = [
            ...cards,
            ...(kept ? [card(kept.type, { text: kept.text }, 'now', index)] : []),
            thought(said, calls, 'now', index),
            ...calls.map(({ callId }) => result(callId, {}, 'now')),
          ];
        }
      }),
      { numRuns: 300 },
    );
  });

  test('what stands last is about this request alone: it is no part of the prefix (K14, W18)', () => {
    const facts = { criteria: ['it is short'] };
    const stateBlock = [{ kind: 'steps_left', steps: 2 }] as const;
    const now = [instruction('one')];
    const first = requestOf({ cards: now, facts, action: { stateBlock, note: { kind: 'go_on' } } });
    const [asked, note, state, ...more] = first.messages;
    expect([note, more]).toEqual([{ role: 'system', content: noteCard({ kind: 'go_on' })?.text }, []]);
    expect(state).toEqual({ role: 'system', content: expect.stringMatching(/- it is short\n2 steps are left/) });
    const next = requestOf({ cards: [...now, thought('', [proposed('c1')]), result('c1')], facts });
    expect(next.messages[0]).toEqual(asked);
    expect(next.messages.at(-1)).toEqual({ role: 'system', content: 'It is done when:\n- it is short' });
    expect(next.messages).toHaveLength(4);
  });

  test('the prefix stays also when the model says what an older deliverable said (W18)', () => {
    const older = [instruction('one'), thought('', [proposed('c1')]), result('c1'), deliverable({ text: 'ok' })];
    const now = [...older, instruction('two', 't2')];
    const next = [...now, thought('ok', [proposed('c2')], 't2'), result('c2', {}, 't2')];
    expectPrefix(requestOf({ cards: now }), requestOf({ cards: next }));
  });

  test('the state of an earlier turn that ended with open calls stays the same bytes (W18)', () => {
    const aborted = [instruction('one'), thought('', [proposed('c1')]), instruction('two', 't2')];
    const next = [...aborted, thought('', [proposed('c2')], 't2'), result('c2', {}, 't2')];
    expectPrefix(requestOf({ cards: aborted }), requestOf({ cards: next }));
  });
});
