/** What a test file imports as `@jest/globals`. A module that several files share, a conformance suite say, finds those of the file that runs. */
type Globals = typeof import('@jest/globals');

/** The mocks and timers that the tests use, each as Jest documents it. */
interface Jest extends Pick<Globals['jest'], 'spyOn'> {
  restoreAllMocks(): void;
  useFakeTimers(): void;
  useRealTimers(): void;
  advanceTimersByTime(ms: number): void;
  advanceTimersByTimeAsync(ms: number): Promise<void>;
  setTimeout(ms: number): void;
}

export interface Given extends Omit<Globals, 'jest'> {
  readonly jest: Jest;
}

let given: Given | undefined;

export function give(now: Given): void {
  given = now;
}

function late<Name extends keyof Given>(name: Name): Given[Name] {
  const current = (): object => {
    if (given) return given[name];
    throw new Error(`${name} of @jest/globals is used outside of a test file`);
  };
  const standIn: unknown = new Proxy(() => {}, {
    apply: (_target, self, args) => Reflect.apply(current() as () => unknown, self, args),
    get: (_target, key) => Reflect.get(current(), key),
  });
  return standIn as Given[Name];
}

export const afterAll = late('afterAll');
export const afterEach = late('afterEach');
export const beforeAll = late('beforeAll');
export const beforeEach = late('beforeEach');
export const describe = late('describe');
export const expect = late('expect');
export const jest = late('jest');
export const test = late('test');
