/** What the client says of an agent's deliverable by its types: the file is type-checked and never run. */
import { z } from 'zod';
import {
  type AgentHandle,
  type ClientApi,
  defineAgent,
  type OutputOf,
  outputOf,
  type TurnHandle,
} from '../../index.ts';

const weather = defineAgent({
  name: 'weather',
  output: z.object({
    city: z.string(),
    wind: z.object({ kmh: z.number().nullable() }).optional(),
    tags: z.array(z.string()).default([]),
  }),
});
const plain = defineAgent({ name: 'plain' });

type Weather = OutputOf<typeof weather>;

/** A typed agent: its deliverable has these fields and no others. */
export async function typed(client: ClientApi) {
  const turn = await client.agent<typeof weather>('a').enqueue({ instruction: 'x' });
  const { deliverable } = await turn.result();
  const output: Weather | null = outputOf(deliverable);
  output?.tags.map((tag) => tag.at(0));
  output?.wind?.kmh?.toFixed();
  deliverable?.fields?.find((field) => field.name === 'city')?.value.at(0);
  // @ts-expect-error no such field
  deliverable?.fields?.find((field) => field.name === 'town');
  // @ts-expect-error a text is no number
  output?.city.toFixed();
  const again: TurnHandle<Weather> = client.turn<typeof weather>(turn.id);
  return [...(await client.agent<typeof weather>('a').turns()), await again.get()];
}

/** An agent that says nothing of its output, or one that is known by its id alone, delivers fields of any names. */
export async function untyped(client: ClientApi) {
  const agents: AgentHandle[] = [client.agent('a'), client.agent<typeof plain>('b'), client.agent<typeof weather>('c')];
  const { deliverable } = await client.turn('t').result();
  const value = deliverable?.fields?.find((field) => field.name === 'anything')?.value;
  // @ts-expect-error it may be any JSON
  value?.toFixed();
  return agents;
}

/** A typed turn is a turn. */
export const asPlain = (turn: TurnHandle<Weather>): TurnHandle => turn;

/** What an agent cannot deliver. */
export const refused = [
  // @ts-expect-error fields come from an object
  defineAgent({ name: 'a', output: z.string() }),
  // @ts-expect-error nor from a union, whose fields differ
  defineAgent({ name: 'a', output: z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]) }),
];
