/**
 * A store of very many ended turns, in minutes instead of days: the store runs one turn, and SQL copies the rows it wrote. So a copy has
 * every row as the store writes it, with ids, places and epochs of its own. Ids of cards and boxes are scattered as hashes are, those of
 * turns rise as the store's do.
 */
import type { Store } from '../../workflows/contract/store.ts';
import { benchApp, PROFILE } from '../workload.ts';
import type { RawDatabase, Row } from './database.ts';

export interface Seeded {
  readonly turns: number;
  readonly agents: number;
}

/** Turns of a usual agent. */
const TURNS_PER_AGENT = 10;
export const LONG_AGENT = 'with-a-long-box';
/** Its turns, three cards each; a summary stands for all but the newest. */
const LONG_TURNS = 3_334;
const LONG_SHOWN = 100;
/** Turns that one statement copies. */
const CHUNK = 20_000;
const TEMPLATE = { agentId: 'template', agentTurnId: 'template-turn' } as const;

export const agentIdAt = (index: number): string => `agent-${String(index).padStart(8, '0')}`;

/** The turn that all others are copies of. The store's clock must stand still, or copies overlap. */
export async function runTemplate(store: Store): Promise<void> {
  await store.registerProfiles([...benchApp().agents.values()]);
  const request = { instruction: 'Write down what was said.', profile: PROFILE, priority: 'normal' } as const;
  const accepted = await store.accept({ ...TEMPLATE, request });
  if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('the first request of an agent gave no lease');
  const { turnEpoch, profileHash } = accepted.lease;
  const fence = { ...TEMPLATE, turnEpoch };
  await store.openStep(fence, { stepIndex: 1, profileHash });
  const { thoughtCardId } = await store.commitStep(fence, {
    stepIndex: 1,
    steerIds: [],
    note: null,
    thought: { text: 'It is written down. '.repeat(10), toolCalls: [] },
    calls: [],
    usage: { input: 900, output: 60, cached: 0 },
    model: 'scripted',
    finishReason: 'stop',
    cost: 0.001,
    latencyMs: 700,
    firstTokenMs: 200,
  });
  await store.commitTurn(fence, {
    termination: { status: 'success' },
    deliverable: { from: 'thought', cardId: thoughtCardId },
    engine: { historyEvents: 18, historyBytes: 9_000, actions: 3 },
  });
}

/** As many turns, and besides them those of the agent with the long box. The caller has run the template. */
export async function seed(db: RawDatabase, turns: number): Promise<Seeded> {
  const template = await readTemplate(db);
  const agents = Math.ceil(turns / TURNS_PER_AGENT);
  const usual = agents * TURNS_PER_AGENT;
  const copier = new Copier(db, template);
  await copier.copy({
    firstAgent: 0,
    firstTurn: 1,
    agents,
    turnsPerAgent: TURNS_PER_AGENT,
    agentId: (agent) => `'agent-' || ${db.padded(agent, 8)}`,
  });
  const longId = () => `'${LONG_AGENT}'`;
  await copier.copy({
    firstAgent: agents,
    firstTurn: usual + 1,
    agents: 1,
    turnsPerAgent: LONG_TURNS,
    agentId: longId,
  });
  const [box] = await db.rows(`select output_box_id as id from agent_state_head where agent_id = '${LONG_AGENT}'`);
  const hidden = (LONG_TURNS - LONG_SHOWN) * template.cards;
  await db.execute(
    `update box_cards set hidden_reason = 'summarised' where box_id = '${box?.id}' and seq <= ${hidden}`,
  );
  await db.execute(`delete from box_units where box_id = '${box?.id}' and to_seq <= ${hidden}`);
  return { turns: usual + LONG_TURNS, agents: agents + 1 };
}

interface Template {
  /** Rows by table. */
  readonly ofTurn: ReadonlyMap<string, readonly Row[]>;
  readonly ofAgent: ReadonlyMap<string, readonly Row[]>;
  /** Ids of rows of a turn, and the box. */
  readonly ids: readonly string[];
  readonly boxId: string;
  readonly cards: number;
  readonly events: number;
}

async function readTemplate(db: RawDatabase): Promise<Template> {
  const { agentId, agentTurnId } = TEMPLATE;
  const [head] = await db.rows(`select output_box_id from agent_state_head where agent_id = '${agentId}'`);
  const boxId = String(head?.output_box_id);
  const read = async (tables: Readonly<Record<string, string>>) => {
    const found = new Map<string, readonly Row[]>();
    for (const [table, where] of Object.entries(tables))
      found.set(table, await db.rows(`select * from ${table} where ${where}`));
    return found;
  };
  const ofTurn = await read({
    turns: `agent_turn_id = '${agentTurnId}'`,
    cards: `agent_turn_id = '${agentTurnId}'`,
    box_cards: `box_id = '${boxId}'`,
    box_units: `box_id = '${boxId}'`,
    agent_steps: `agent_turn_id = '${agentTurnId}'`,
    execution_edges: `source_agent_turn_id = '${agentTurnId}' or target_agent_turn_id = '${agentTurnId}'`,
    events: `agent_id = '${agentId}'`,
  });
  const ofAgent = await read({
    agents: `agent_id = '${agentId}'`,
    agent_state_head: `agent_id = '${agentId}'`,
    boxes: `box_id = '${boxId}'`,
  });
  const idsOf = (table: string, column: string) => (ofTurn.get(table) ?? []).map((row) => String(row[column]));
  return {
    ofTurn,
    ofAgent,
    ids: [...idsOf('cards', 'card_id'), ...idsOf('execution_edges', 'edge_key')],
    boxId,
    cards: idsOf('box_cards', 'card_id').length,
    events: idsOf('events', 'seq').length,
  };
}

interface Copies {
  readonly firstAgent: number;
  readonly firstTurn: number;
  readonly agents: number;
  readonly turnsPerAgent: number;
  readonly agentId: (agent: string) => string;
}

/** Expressions in the number `i` of a turn, or of an agent. */
class Copier {
  readonly #db: RawDatabase;
  readonly #template: Template;
  /** Ids that were given so far are below. */
  readonly #stride: number;

  constructor(db: RawDatabase, template: Template) {
    this.#db = db;
    this.#template = template;
    this.#stride = template.ids.length + 1;
  }

  async copy(copies: Copies): Promise<void> {
    const { firstAgent, firstTurn, agents, turnsPerAgent } = copies;
    const last = firstTurn + agents * turnsPerAgent - 1;
    const agent = `(${firstAgent} + (i - ${firstTurn}) / ${turnsPerAgent})`;
    const place = `((i - ${firstTurn}) % ${turnsPerAgent})`;
    for (let from = firstTurn; from <= last; from += CHUNK)
      await this.#insert(this.#template.ofTurn, [from, Math.min(last, from + CHUNK - 1)], (table, column, value) =>
        this.#valueOf(table, column, value, this.#replacements(copies, agent, 'i', `(${place} + 1)`), place),
      );
    const turn = `(${firstTurn} + i * ${turnsPerAgent})`;
    await this.#insert(this.#template.ofAgent, [0, agents - 1], (table, column, value) => {
      const total = this.#totals(turnsPerAgent)[`${table}.${column}`];
      if (total !== undefined) return String(total);
      const replaced = this.#replacements(copies, `(${firstAgent} + i)`, turn, String(turnsPerAgent));
      return this.#valueOf(table, column, value, replaced, '0');
    });
  }

  async #insert(
    tables: ReadonlyMap<string, readonly Row[]>,
    [from, to]: readonly [number, number],
    value: (table: string, column: string, value: Row[string]) => string,
  ): Promise<void> {
    const numbers = this.#db.numbers(from, to);
    for (const [table, rows] of tables) {
      for (const row of rows) {
        // The one that numbers itself.
        const columns = Object.keys(row).filter((column) => `${table}.${column}` !== 'events.id');
        const values = columns.map((column) => value(table, column, row[column] ?? null));
        await this.#db.execute(
          `insert into ${table} (${columns.join(', ')}) ${numbers.with} select ${values.join(', ')} from ${numbers.from}`,
        );
      }
    }
  }

  /** What grows with the turns of an agent. */
  #totals(turns: number): Readonly<Record<string, number>> {
    const { events } = this.#template;
    return {
      'agent_state_head.turn_epoch': turns,
      'agent_state_head.accept_seq': turns,
      'agent_state_head.event_seq': turns * events,
    };
  }

  /** What moves on with each turn of an agent: by how much. */
  #steps(): Readonly<Record<string, number>> {
    const { cards, events } = this.#template;
    return {
      'turns.accept_seq': 1,
      'turns.turn_epoch': 1,
      'turns.instruction_seq': cards,
      'box_cards.seq': cards,
      'box_units.from_seq': cards,
      'box_units.to_seq': cards,
      'events.seq': events,
    };
  }

  #valueOf(
    table: string,
    column: string,
    value: Row[string],
    replacements: ReadonlyMap<string, string>,
    place: string,
  ): string {
    const step = this.#steps()[`${table}.${column}`];
    if (step !== undefined) return `${value} + ${place} * ${step}`;
    if (value === null) return 'null';
    if (typeof value === 'number') return String(value);
    const pattern = new RegExp(`(${[...replacements.keys()].join('|')})`);
    const parts = value.split(pattern).filter((part) => part !== '');
    return parts.map((part) => replacements.get(part) ?? `'${part.replaceAll("'", "''")}'`).join(' || ') || `''`;
  }

  /** What stands for the template's ids and epoch in a copy, the longest first. */
  #replacements({ agentId }: Copies, agent: string, turn: string, epoch: string): ReadonlyMap<string, string> {
    const { ids, boxId } = this.#template;
    const { agentId: templateId, agentTurnId } = TEMPLATE;
    return new Map([
      ...ids.map((id, index) => [id, this.#scattered(`(${turn} * ${this.#stride} + ${index})`)] as const),
      [boxId, this.#scattered(`(${agent} * ${this.#stride} + ${ids.length})`, 'box')],
      ['"turnEpoch":1', `'"turnEpoch":' || ${epoch}`],
      [agentTurnId, `'01800000-0000-7000-8000-' || ${this.#db.padded(turn, 12)}`],
      [templateId, `(${agentId(agent)})`],
    ]);
  }

  /** As far apart as hashes are, and different for different numbers below 2^32. */
  #scattered(number: string, kind = 'seed'): string {
    return `${this.#db.hex(`(${number} * 2654435761) % 4294967296`)} || '-0000-5000-8000-00000000${kind}'`;
  }
}
