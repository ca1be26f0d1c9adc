import { describe, expect, test } from '@jest/globals';
import { settingsOf } from '../../../workers/commands/settings.ts';
import { readConfig } from '../../../workers/config.ts';

const settings = (env: Readonly<Record<string, string>>, options = {}) => settingsOf(readConfig(env), options);

describe('settings of a command', () => {
  test('without anything said, all lies in .agentturn', () => {
    expect(settings({})).toMatchObject({
      dataDir: '.agentturn',
      storeUrl: 'sqlite:.agentturn/agentturn.db',
      temporal: undefined,
      namespace: 'default',
    });
  });

  test('a data folder holds the store, a SQLite store tells the data folder', () => {
    expect(settings({}, { dataDir: '/data' })).toMatchObject({
      dataDir: '/data',
      storeUrl: 'sqlite:/data/agentturn.db',
    });
    expect(settings({ AGENTTURN_STORE: 'sqlite:/var/x.db' })).toMatchObject({ dataDir: '/var' });
    expect(settings({}, { store: 'postgres://h/db' })).toMatchObject({ dataDir: '.agentturn' });
  });

  test('options win over the environment', () => {
    const env = { TEMPORAL_ADDRESS: 'a:1', TEMPORAL_NAMESPACE: 'n1', AGENTTURN_STORE: 'sqlite:a.db' };
    expect(settings(env)).toMatchObject({ temporal: { address: 'a:1', namespace: 'n1' }, storeUrl: 'sqlite:a.db' });
    const options = { temporal: 'b:2', namespace: 'n2', store: 'sqlite:b.db' };
    expect(settings(env, options)).toMatchObject({
      temporal: { address: 'b:2', namespace: 'n2' },
      storeUrl: 'sqlite:b.db',
    });
  });
});
