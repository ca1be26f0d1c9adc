/** The order of the test files: those that take longest first, or a machine would wait at the end for the last of them alone. */
import { createRequire } from 'node:module';

// Its types are those of a CommonJS module.
const { default: Sequencer } = createRequire(import.meta.url)(
  '@jest/test-sequencer',
) as typeof import('@jest/test-sequencer');

/** What takes half a minute or more, by the time it took on two cores; what a machine has run before, it knows better by itself. */
const SLOWEST = [
  'readme',
  'workers/commands/dev',
  'activities/store/postgres/open',
  'acceptance/crash-windows',
  'workers/demo/demo',
  'package/tarball',
  'acceptance/story',
  'acceptance/outages',
  'activities/burst/run-steps',
  'activities/store/sqlite/open',
  'activities/tools/standstill',
  'workers/temporal/server',
  'workflows/turn/watchdog',
  'client/console/console',
  'workflows/turn/web-ui',
  'workers/commands/webhooks',
  'client/cli/errors',
  'acceptance/frozen-worker',
  'workers/verify',
  'workers/commands/doctor',
  'workers/journal/killed',
  'client/cli/chat/terminal',
  'activities/store/postgres/pressure',
  'acceptance/restored-store',
];

type Test = Parameters<InstanceType<typeof Sequencer>['sort']>[0][number];

const placeOf = ({ path }: Test): number => {
  const place = SLOWEST.findIndex((name) => path.endsWith(`/test/${name}.test.ts`));
  return place < 0 ? SLOWEST.length : place;
};

export default class SlowestFirst extends Sequencer {
  override async sort(tests: Test[]): Promise<Test[]> {
    return [...(await super.sort(tests))].sort((a, b) => placeOf(a) - placeOf(b));
  }
}
