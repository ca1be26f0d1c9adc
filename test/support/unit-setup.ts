/** Once for a run of the pure tests and those of the stores: no Temporal server. */
import { openFolder, startPostgres } from './run-parts.ts';

export default (): Promise<void> => startPostgres(openFolder());
