/** Once for a run of the pure tests and those of the stores, which have no server. */
import { openFolder } from './run-parts.ts';

export default function setup(): void {
  openFolder();
}
