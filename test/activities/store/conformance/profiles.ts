/** Which version of an agent definition new turns get, while workers of several versions come and go (W4). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import type { Registration } from '../../../../workflows/contract/profiles.ts';
import type { ProfileSnapshot } from '../../../../workflows/protocol/profile.ts';
import { newAgent, nothing, type OpenStore, type StoreBench } from '../store-bench.ts';

export function describeProfiles(bench: StoreBench, makeOpener: () => OpenStore): void {
  const register = (name: string, singleton = false, on = bench.store) =>
    on.registerProfiles([...defineApp({ agents: [defineAgent({ name, singleton })] }).agents.values()]);

  describe('the profile of a request', () => {
    test('that nobody has registered is refused with the nearest name, and no agent is made', async () => {
      const agentId = newAgent();
      const message = expect.stringContaining('did you mean tester? registered');
      const refused = { kind: 'refused', code: 'profile_not_found', message };
      expect(await bench.accept(agentId, { profile: 'testre' })).toMatchObject(refused);
      expect(await bench.accept(agentId, { profile: undefined })).toMatchObject({
        ...refused,
        message: expect.stringContaining('has no profile'),
      });
      expect(await bench.store.getAgent(agentId)).toBeNull();
      expect(await bench.eventsOf(agentId)).toEqual([]);
      expect((await bench.started(agentId)).turnEpoch).toBe(1);
      expect(await bench.accept(agentId, { profile: 'testre' })).toMatchObject(refused);
      expect(await bench.accept(agentId, { profile: undefined })).toMatchObject({ kind: 'accepted' });
    });

    test('is not that of an agent which is merely named like it, unless it has one agent only', async () => {
      const [shared, single] = [`shared-${v7()}`, `single-${v7()}`];
      await register(shared);
      await register(single, true);
      for (const profile of [undefined, shared]) {
        const outcome = await bench.accept(shared, { profile });
        const message = expect.stringMatching(`client.run\\('${shared}'.*profile: '${shared}'`);
        expect(outcome).toMatchObject({ kind: 'refused', code: 'invalid_request', message });
        expect(await bench.accept(single, { profile })).toMatchObject({ kind: 'accepted' });
      }
      expect(await bench.store.getAgent(shared)).toBeNull();
      expect(await bench.accept(newAgent(), { profile: shared })).toMatchObject({ kind: 'accepted' });
    });

    test('is known of a queued turn: the one that it names, that of its agent, or the one that is named like the agent', async () => {
      const [agentId, single] = [newAgent(), `single-${v7()}`];
      await register(single, true);
      const other = `other-${v7()}`;
      await register(other);
      await bench.started(agentId);
      await bench.accepted(agentId, { profile: undefined });
      await bench.accepted(agentId, { profile: other });
      await bench.started(single, { profile: undefined });
      await bench.accepted(single, { profile: undefined });
      const profilesOf = async (of: string) => {
        const shown = (await bench.other.listTurns(of)).map(({ profile }) => profile);
        const listed = (await bench.other.findTurns({ agentId: of, status: ['queued'] })).map(({ profile }) => profile);
        expect(listed.toSorted()).toEqual(shown.slice(1).toSorted());
        return shown;
      };
      expect(await profilesOf(agentId)).toEqual(['tester', 'tester', other]);
      expect(await profilesOf(single)).toEqual([single, single]);
      const found = await bench.other.findTurns({ agentId, profile: 'tester', status: ['queued'] });
      expect(found).toHaveLength(1);
      expect(await bench.other.findTurns({ profile: single })).toHaveLength(2);
      expect(await bench.other.getAgent(single)).toMatchObject({ profile: single });
      expect(await bench.other.listAgents({ profile: single })).toMatchObject([{ agentId: single }]);
      expect((await bench.other.agentSummary(single))?.identity.profile).toBe(single);
    });

    test('that was not known when the request was accepted does not make a profile an agent either (T8)', async () => {
      const store = await makeOpener()(() => bench.now);
      const request = { instruction: 'do it', priority: 'normal' } as const;
      const early = await store.accept({ agentId: 'weather', request });
      expect(early).toMatchObject({ kind: 'accepted', status: 'queued' });
      await register('weather', false, store);
      expect(await store.leaseNext('weather')).toEqual(nothing('weather'));
      const [turn] = await store.listTurns('weather');
      expect(turn).toMatchObject({ status: 'failed', errorCode: 'invalid_request' });
      expect(await store.violations()).toEqual([]);
      await store.close();
    });
  });

  describe('versions of a profile', () => {
    /** Registers versions of one profile, each by its instructions; says which one a new turn gets. */
    function deployments() {
      const name = `profile-${v7()}`;
      const versionOf = (instructions: string): readonly ProfileSnapshot[] => [
        ...defineApp({ agents: [defineAgent({ name, instructions })] }).agents.values(),
      ];
      const register = (instructions: string, how?: Registration) =>
        bench.store.registerProfiles(versionOf(instructions), how);
      const inUse = async () => {
        const { profileHash } = await bench.started(newAgent(), { profile: name });
        return (await bench.store.readProfile(profileHash)).profile.instructions;
      };
      return { name, register, inUse };
    }

    test('a new one counts at once, and an old worker that starts again sets nothing back (W4)', async () => {
      const { name, register, inUse } = deployments();
      expect(await register('old')).toEqual([]);
      expect(await register('new')).toEqual([]);
      expect(await register('old')).toEqual([name]);
      expect(await inUse()).toBe('new');
      expect(await register('new')).toEqual([]);
      expect(await inUse()).toBe('new');
    });

    test('an earlier one comes back with a higher revision, and then stays (W4)', async () => {
      const { name, register, inUse } = deployments();
      await register('old', { revision: 1 });
      await register('new', { revision: 2 });
      expect(await register('old', { revision: 3 })).toEqual([]);
      expect(await inUse()).toBe('old');
      expect(await register('new', { revision: 2 })).toEqual([name]);
      expect(await inUse()).toBe('old');
    });

    test('one of a lower revision never counts, though nobody has seen it (W4)', async () => {
      const { name, register, inUse } = deployments();
      await register('new', { revision: 2 });
      expect(await register('forgotten', { revision: 1 })).toEqual([name]);
      expect(await register('without a revision')).toEqual([name]);
      expect(await inUse()).toBe('new');
    });

    test('the same one of a higher revision keeps out what lies between (W4)', async () => {
      const { name, register, inUse } = deployments();
      await register('same', { revision: 1 });
      expect(await register('same', { revision: 3 })).toEqual([]);
      expect(await register('between', { revision: 2 })).toEqual([name]);
      expect(await inUse()).toBe('same');
    });

    test('whoever has the store for himself takes over (W4)', async () => {
      const { register, inUse } = deployments();
      await register('old');
      await register('new', { revision: 2 });
      expect(await register('old', { takeOver: true })).toEqual([]);
      expect(await inUse()).toBe('old');
    });
  });
}
