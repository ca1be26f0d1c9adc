import { describe, expect, test } from '@jest/globals';
import { builtinSpecs } from '../../../activities/tools/builtin/registry.ts';
import { kernelConfig } from '../../../workflows/kernel/config.ts';
import type { Exposure } from '../../../workflows/kernel/exposure.ts';
import { type ProfileInput, profileSchema } from '../../../workflows/protocol/profile.ts';
import { Turn } from './turn.ts';

const skills: Exposure['skills'] = [
  { name: 'debug', allowedTools: ['read', 'grep'] },
  { name: 'review', allowedTools: ['diff'], leaseSteps: 2 },
  { name: 'open', allowedTools: null },
];
const exposure: Exposure = { declared: ['read', 'grep', 'bash', 'diff', 'write', 'skill'], core: ['bash'], skills };
const ALWAYS = ['submit_result', 'read_result'];

function started(): Turn {
  const turn = new Turn({ exposure });
  turn.start();
  return turn;
}

/** The model calls `skill`, and the call is settled while it is proposed. */
function take(turn: Turn, skill: string): void {
  turn.respond({ calls: [{ callId: turn.idOf('skill'), tool: 'skill', skill, settled: turn.settled('skill') }] });
}

function other(turn: Turn): void {
  turn.call('bash');
  turn.results({ bash: {} });
}

const offered = (turn: Turn): unknown => {
  const action = turn.actions.at(-1);
  return action?.type === 'call_llm' ? action.onlyTools : action;
};

describe('a model call offers', () => {
  test('everything of the profile, unnamed, when nothing can narrow it (K8)', () => {
    const turn = new Turn();
    expect(turn.start()).not.toHaveProperty('onlyTools');
  });

  test('what the profile declares while no skill is in use (K8)', () => {
    expect(offered(started())).toEqual([...exposure.declared, ...ALWAYS]);
  });

  test('the stable core, the tools of the skills in use and the built-in ones, in the order of the profile (K8)', () => {
    const turn = started();
    take(turn, 'debug');
    expect(offered(turn)).toEqual(['read', 'grep', 'bash', 'skill', ...ALWAYS]);
    take(turn, 'review');
    expect(offered(turn)).toEqual(['read', 'grep', 'bash', 'diff', 'skill', ...ALWAYS]);
  });

  test('the tools of a skill that an earlier step took up, not of one taken up in a step that is taken back (K8, K13)', () => {
    const turn = started();
    take(turn, 'debug');
    const before = offered(turn);
    const settled = turn.settled('skill');
    const skill = { callId: settled.callId, tool: 'skill', skill: 'review', settled };
    turn.respond({ calls: [skill, { callId: turn.idOf('bash'), tool: 'bash' }] });
    turn.results({ bash: { status: 'failed', errorKind: 'fatal' } });
    expect(turn.observations).toMatchObject([{ type: 'rolled_back' }]);
    expect(offered(turn)).toEqual(before);
  });

  test('the same bytes from step to step until another skill is taken up (K8)', () => {
    const turn = started();
    take(turn, 'debug');
    const before = JSON.stringify(offered(turn));
    other(turn);
    expect(JSON.stringify(offered(turn))).toBe(before);
  });

  test('everything while a skill is in use that does not narrow (K8)', () => {
    const turn = started();
    take(turn, 'debug');
    take(turn, 'open');
    expect(offered(turn)).toEqual([...exposure.declared, ...ALWAYS]);
  });

  test('the tools of a skill for as many steps as it is lent (K8)', () => {
    const turn = started();
    take(turn, 'review');
    const lent = ['bash', 'diff', 'skill', ...ALWAYS];
    expect(offered(turn)).toEqual(lent);
    other(turn);
    expect(offered(turn)).toEqual(lent);
    other(turn);
    expect(offered(turn)).toEqual([...exposure.declared, ...ALWAYS]);
  });

  test('the tools of a skill that is taken up again for its whole time anew (K8)', () => {
    const turn = started();
    take(turn, 'review');
    take(turn, 'review');
    other(turn);
    expect(offered(turn)).toEqual(['bash', 'diff', 'skill', ...ALWAYS]);
    other(turn);
    expect(offered(turn)).toEqual([...exposure.declared, ...ALWAYS]);
  });

  test('nothing new for a skill that is not there, or whose call failed (K8)', () => {
    const turn = started();
    const settled = turn.settled('skill', { status: 'failed' });
    turn.respond({ calls: [{ callId: turn.idOf('skill'), tool: 'skill', settled }] });
    expect(offered(turn)).toEqual([...exposure.declared, ...ALWAYS]);
  });
});

describe('the capabilities of a profile', () => {
  const tool = (name: string) =>
    ({ name, description: '', parameters: {}, afterExecution: 'continue', timeoutMs: 1, sideEffects: 'none' }) as const;
  const declared = (profile: Partial<ProfileInput>) => {
    const parsed = profileSchema.parse({ name: 'p', delegationPolicy: { profiles: ['q'] }, ...profile });
    const offered = { tools: [tool('read'), tool('write')], builtins: builtinSpecs(parsed) };
    return kernelConfig({ profile: parsed, ...offered, warnings: [] }, null, 0).exposure?.declared;
  };
  const skill = { name: 's', description: 'd', content: 'c' };

  test('are not there when the profile says nothing (K8)', () => {
    expect(declared({})).toBeUndefined();
  });

  test('let tools through by id, and leave the built-in ones alone (K8)', () => {
    expect(declared({ capabilities: { ids: ['read'] }, skills: [skill] })).toEqual([
      'read',
      'delegate_async',
      'ask_expert',
      'skill',
    ]);
  });

  test('let tools through by kind, the built-in ones too (K8)', () => {
    expect(declared({ capabilities: { kinds: ['tool'] }, skills: [skill] })).toEqual(['read', 'write']);
    expect(declared({ capabilities: { kinds: ['agent'] } })).toEqual(['delegate_async', 'ask_expert']);
  });

  test('let a built-in tool through that the profile asks for by name, and no skill narrows it away (K8)', () => {
    const builtins = [{ name: 'clock', kind: 'tool', parameters: null }] as const;
    const exposed = (profile: Partial<ProfileInput>) => {
      const parsed = profileSchema.parse({ name: 'p', ...profile });
      return kernelConfig({ profile: parsed, tools: [tool('read')], builtins, warnings: [] }, null, 0).exposure;
    };
    const narrow = { ...skill, allowedTools: ['read'] };
    const offered = exposed({ skills: [narrow], stableCore: ['write'] });
    expect(offered).toMatchObject({ declared: ['read', 'clock'], core: ['write', 'clock'] });
    expect(exposed({ capabilities: { ids: ['write'] } })).toMatchObject({ declared: ['clock'] });
    expect(exposed({ capabilities: { kinds: ['agent'] } })).toMatchObject({ declared: [], core: [] });
  });
});
