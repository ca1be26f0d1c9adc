/** Which version of an agent definition new turns get, while workers of several versions come and go (W4). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import type { Registration } from '../../../../workflows/contract/profiles.ts';
import type { ProfileSnapshot } from '../../../../workflows/protocol/profile.ts';
import { newAgent, type StoreBench } from '../store-bench.ts';

export function describeProfiles(bench: StoreBench): void {
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
