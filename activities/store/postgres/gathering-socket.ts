/**
 * A socket that sends at once what is written within one turn of the event loop: a transaction writes several statements before it waits for
 * an answer, and each one that is sent by itself costs a system call and wakes the server.
 */
import { Socket } from 'node:net';

/** The first write corks it, and it is uncorked before the process waits again. */
export class GatheringSocket extends Socket {
  #isGathering = false;

  /** Node's own gives the socket Node's own `write` as it connects, in place of any other. */
  override connect(...to: unknown[]): this {
    super.connect(...(to as Parameters<Socket['connect']>));
    Reflect.deleteProperty(this, 'write');
    return this;
  }

  override write(...written: unknown[]): boolean {
    if (!this.#isGathering) {
      this.#isGathering = true;
      this.cork();
      process.nextTick(() => {
        this.#isGathering = false;
        this.uncork();
      });
    }
    return super.write(...(written as Parameters<Socket['write']>));
  }
}
