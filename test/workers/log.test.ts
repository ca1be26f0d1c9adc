/** The log of a worker process. */
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/common';
import { isShown, levelOf, logLine, sayer } from '../../workers/log.ts';

const at = BigInt(Date.UTC(2026, 0, 31)) * 1_000_000n;
const cause = Object.assign(new Error('connect ECONNREFUSED\n  at 10.0.0.1'), { name: 'ConnectError' });
const error = ApplicationFailure.create({ message: 'the store does not answer', type: 'store_unavailable', cause });
const entry = {
  level: 'WARN',
  message: 'Activity failed',
  timestampNanos: at,
  meta: { sdkComponent: 'worker', taskToken: 'x', activityType: 'callModel', attempt: 3, error, title: 'two words' },
} as const;

describe('a line of the log', () => {
  test('says an error by its type, its message and its causes, without a stack, on one line', () => {
    const line = logLine(entry, 'text');
    expect(line).toBe(
      '2026-01-31T00:00:00.000Z WARN  Activity failed activityType=callModel attempt=3 ' +
        'error="store_unavailable: the store does not answer, because of ConnectError: connect ECONNREFUSED at 10.0.0.1" ' +
        'title="two words"',
    );
  });

  test('is an object with all fields where JSON is asked for', () => {
    const line = logLine(entry, 'json');
    expect(line).not.toContain('\n');
    expect(JSON.parse(line)).toMatchObject({
      time: '2026-01-31T00:00:00.000Z',
      level: 'WARN',
      message: 'Activity failed',
      taskToken: 'x',
      attempt: 3,
      error: expect.stringContaining('store_unavailable: the store does not answer'),
    });
    const lines: string[] = [];
    const write = (said: string) => void lines.push(said);
    sayer(write, 'INFO', 'text')('ready');
    sayer(write, 'WARN', 'text')('not important enough');
    sayer(write, 'WARN', 'json')('beware', 'WARN');
    expect(lines).toEqual(['ready', expect.any(String)]);
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ level: 'WARN', message: 'beware' });
  });

  test('has the stack where the level asks for details', () => {
    expect(logLine({ ...entry, level: 'DEBUG' }, 'json')).toContain('log.test.ts');
  });

  test('is shown where a tool said it that is important enough; of the runtime there are warnings, unless all is asked for', () => {
    const info = (sdkComponent: string, tool?: string) => ({ level: 'INFO' as const, meta: { sdkComponent, tool } });
    expect(levelOf({})).toBe('INFO');
    expect(levelOf({ debug: true })).toBe('DEBUG');
    expect(levelOf({ debug: true, logLevel: 'error' })).toBe('ERROR');
    const shown = [
      isShown(info('activity', 'print'), 'INFO'),
      isShown(info('worker'), 'INFO'),
      isShown(info('activity'), 'INFO'),
    ];
    expect(shown).toEqual([true, false, false]);
    expect(isShown(info('activity', 'print'), 'WARN')).toBe(false);
    expect(isShown({ level: 'WARN', meta: { sdkComponent: 'core' } }, 'INFO')).toBe(true);
    expect(isShown(info('worker'), 'DEBUG')).toBe(true);
  });

  test('stays one line of bounded length whatever an entry holds, and ends where causes go in a circle', () => {
    const circle = new Error('a');
    circle.cause = circle;
    const ring: Record<string, unknown> = {};
    ring.self = ring;
    const foreign: unknown = runInNewContext('new TypeError("of another realm")');
    for (const format of ['text', 'json'] as const) {
      const odd = logLine({ ...entry, meta: { ring, nested: { big: 10n }, foreign } }, format);
      expect(odd).toContain('10n');
      expect(odd).toContain('TypeError: of another realm');
      expect(odd).not.toContain('\n');
    }
    const meta = { circle, long: 'x\n'.repeat(5_000), big: 10n, nothing: undefined, nested: { a: 1 } };
    const line = logLine({ ...entry, meta }, 'text');
    expect(line).toContain('circle="Error: a" ');
    expect(line).toContain('big=10 nothing=undefined nested={"a":1}');
    expect(line.length).toBeLessThan(2_500);
    expect(line).not.toContain('\n');
  });
});
