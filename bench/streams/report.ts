/** What following turns takes, as a table, and what is over its budget. */
import { section, short, table, whole } from '../markdown.ts';
import type { StreamResults } from './measure.ts';

const MIB = 1024 * 1024;
const MEDIAN_MS = { sqlite: 100, postgres: 60 } as const;
const GATEWAY_MIB = 250;

export function streamMarkdown(results: StreamResults): string {
  const { store, chunks, medianMs, p95Ms, readers, turns, seconds, read, resumed, wrong, gatewayBytes } = results;
  return section(
    `Turns that are followed over HTTP, ${store}`,
    table(
      ['what', 'measured', 'limit'],
      [
        [
          `from the model to a reader in another process, median of ${chunks} chunks, ms`,
          short(medianMs),
          short(MEDIAN_MS[store]),
        ],
        ['… 95th percentile, ms', short(p95Ms), '–'],
        [`turns read to their end by ${readers} readers, ${turns} turns at once, ${seconds} s`, whole(read), '–'],
        ['… times that a reader left and came back', whole(resumed), '–'],
        ['… readers that lost, doubled or reordered anything', whole(wrong), '0'],
        ['… memory of the gateway, MiB', whole(gatewayBytes / MIB), whole(GATEWAY_MIB)],
      ],
    ),
  );
}

export const streamBudget = ({ store, medianMs, wrong, gatewayBytes }: StreamResults): readonly string[] => [
  ...(medianMs > MEDIAN_MS[store] ? ['latency of a chunk'] : []),
  ...(wrong > 0 ? ['readers that lost, doubled or reordered anything'] : []),
  ...(gatewayBytes > GATEWAY_MIB * MIB ? ['memory of the gateway'] : []),
];
