/** The Temporal server of a run: always the same data folder and port, so that a restart is what it is in life. */
import { setTimeout as sleep } from 'node:timers/promises';
import { findOrStartTemporal, type TemporalServer } from '../../workers/temporal/server.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { signal } from '../support/programs.ts';

const START_ATTEMPTS = 5;

export class ChaosTemporal {
  readonly #place: Place;
  #server: TemporalServer;

  private constructor(place: Place, server: TemporalServer) {
    this.#place = place;
    this.#server = server;
  }

  static async start(dataDir: string, { webUi = false } = {}): Promise<ChaosTemporal> {
    const place = { dataDir, headless: !webUi };
    return new ChaosTemporal(place, await startServer(place, 0));
  }

  get address(): string {
    return this.#server.address;
  }

  get namespace(): string {
    return this.#server.namespace;
  }

  /** The address of the Web UI of the server that runs now; undefined for a server without one. */
  get uiUrl(): string | undefined {
    return this.#server.uiUrl;
  }

  /** Ends the server, waits, and starts it again. */
  async restart(how: 'SIGKILL' | 'SIGTERM', gapMs: number): Promise<void> {
    const port = Number(this.address.split(':').at(-1));
    if (how === 'SIGKILL') signal(this.#server.pid, 'SIGKILL');
    await this.#server.stop();
    await sleep(gapMs);
    for (let attempt = 1; ; attempt += 1) {
      try {
        this.#server = await startServer(this.#place, port);
        return;
      } catch (error) {
        if (attempt === START_ATTEMPTS) throw error;
        await sleep(1_000);
      }
    }
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }
}

interface Place {
  readonly dataDir: string;
  readonly headless: boolean;
}

const startServer = (place: Place, port: number): Promise<TemporalServer> =>
  findOrStartTemporal({
    ...place,
    port,
    pathEnv: process.env.PATH ?? '',
    searchAttributes: SEARCH_ATTRIBUTES,
    log: () => {},
  });
