import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import pg from 'pg';
import { callTree } from '../../../client/call-tree.ts';
import { treeLines } from '../../../client/cli/call-tree.ts';
import { openStore } from '../../../workers/open-store.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import type { EdgeView } from '../../../workflows/contract/views.ts';
import { freshSchemaUrl, hasPostgres } from '../../support/postgres.ts';

const edge = (createdAt: number, more: Partial<EdgeView> & Pick<EdgeView, 'primitive'>): EdgeView => ({
  phase: more.primitive === 'report' ? 'response' : 'request',
  kind: null,
  sourceAgentId: null,
  sourceAgentTurnId: null,
  sourceStepIndex: null,
  targetAgentId: null,
  targetAgentTurnId: null,
  callId: null,
  correlationId: null,
  depth: 0,
  traceId: null,
  createdAt,
  ...more,
});
const ALICE = { targetAgentId: 'alice', targetAgentTurnId: 't1' };
const BY_ALICE = { sourceAgentId: 'alice', sourceAgentTurnId: 't1' };
const BOB = { targetAgentId: 'bob', targetAgentTurnId: 't2' };
const BY_BOB = { sourceAgentId: 'bob', sourceAgentTurnId: 't2' };

const EDGES: readonly EdgeView[] = [
  edge(0, { primitive: 'enqueue', ...ALICE, correlationId: 'order-7', traceId: 'abc' }),
  edge(100, { primitive: 'tool_call', kind: 'add', callId: 'c1', ...BY_ALICE, sourceStepIndex: 1 }),
  edge(100, { primitive: 'tool_call', kind: 'ask', callId: 'c2', ...BY_ALICE, sourceStepIndex: 1 }),
  edge(112, { primitive: 'report', kind: 'tool_result', callId: 'c1', ...ALICE }),
  edge(2_000, { primitive: 'enqueue', ...BY_ALICE, sourceStepIndex: 2, ...BOB, depth: 1 }),
  edge(2_500, { primitive: 'tool_call', kind: 'search', callId: 'c3', ...BY_BOB, sourceStepIndex: 1 }),
  edge(3_000, { primitive: 'report', kind: 'tool_result', callId: 'c3', ...BOB }),
  edge(4_000, { primitive: 'report', kind: 'partial', ...BY_BOB }),
  edge(60_100, { primitive: 'report', kind: 'timeout', callId: 'c2', ...ALICE }),
  edge(61_000, { primitive: 'tool_call', kind: 'add', callId: 'c4', ...BY_ALICE, sourceStepIndex: 3 }),
];

describe('the call tree', () => {
  test('is drawn from edges: calls, what they took, delegated turns below their parent, what is open', () => {
    const tree = callTree('t1', EDGES);
    expect(tree && treeLines(tree)).toEqual([
      'turn t1 of alice: open, accepted 1970-01-01T00:00:00.000Z',
      '├─ +100 ms  step 1 add: answered after 12 ms',
      '├─ +100 ms  step 1 ask: timeout after 1 min 0 s',
      '├─ +2.0 s  step 2 turn t2 of bob: partial after 2.0 s',
      '│  └─ +2.5 s  step 1 search: answered after 500 ms',
      '└─ +1 min 1 s  step 3 add: open',
    ]);
    expect(tree).toMatchObject({ correlationId: 'order-7', traceId: 'abc', depth: 0, endedAt: null });
    expect(tree?.children[2]).toMatchObject({
      node: 'turn',
      agentId: 'bob',
      depth: 1,
      startedAt: 2_000,
      endedAt: 4_000,
    });
  });

  test('of the delegated turn alone shows neither its parent nor the siblings', () => {
    const tree = callTree('t2', EDGES.slice(4, 8));
    expect(tree && treeLines(tree)).toEqual([
      'step 2 turn t2 of bob: partial after 2.0 s, accepted 1970-01-01T00:00:02.000Z',
      '└─ +500 ms  step 1 search: answered after 500 ms',
    ]);
  });

  test('hides no edge whose partner is missing', () => {
    const loose = [
      ...EDGES.slice(0, 2),
      edge(50, { primitive: 'join', kind: 'all', ...ALICE }),
      edge(70, { primitive: 'report', kind: 'tool_result', callId: 'nobody asked', ...ALICE }),
    ];
    const tree = callTree('t1', loose);
    expect(tree && treeLines(tree).slice(1)).toEqual([
      '├─ +100 ms  step 1 add: open',
      '├─ +50 ms  join/request (all) without a partner',
      '└─ +70 ms  report/response (tool_result) without a partner',
    ]);
  });

  test('ends where turns enqueue one another in a ring', () => {
    const ring = [
      edge(0, { primitive: 'enqueue', ...ALICE, ...BY_BOB }),
      edge(1, { primitive: 'enqueue', ...BOB, ...BY_ALICE }),
    ];
    const tree = callTree('t1', ring);
    expect(tree && treeLines(tree)).toHaveLength(2);
  });

  test('of very many calls is made in a moment, whatever order their results came in', () => {
    const ids = Array.from({ length: 20_000 }, (_, index) => `c${index}`);
    const busy = [
      edge(0, { primitive: 'enqueue', ...ALICE }),
      ...ids.map((callId) => edge(1, { primitive: 'tool_call', kind: 'add', callId, ...BY_ALICE, sourceStepIndex: 1 })),
      ...ids.toReversed().map((callId) => edge(2, { primitive: 'report', kind: 'tool_result', callId, ...ALICE })),
    ];
    const { children = [] } = callTree('t1', busy) ?? {};
    expect(children.map((child) => child.node === 'call' && child.status)).toEqual(ids.map(() => 'answered'));
  });

  test('of a turn that nothing enqueued is null', () => {
    expect(callTree('t9', EDGES)).toBeNull();
  });
});

describe.each(['sqlite', ...(hasPostgres ? ['postgres'] : [])])('edges of delegated turns on %s', (backend) => {
  async function opened(): Promise<{
    store: Store;
    run: (statement: string) => Promise<void>;
    close(): Promise<void>;
  }> {
    if (backend === 'sqlite') {
      const file = join(mkdtempSync(join(tmpdir(), 'agentturn-edges-')), 'store.db');
      const store = await openStore(`sqlite:${file}`);
      const database = new Database(file);
      const close = async () => {
        database.close();
        await store.close();
      };
      return { store, run: async (statement) => void database.exec(statement), close };
    }
    const url = await freshSchemaUrl();
    const store = await openStore(url);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const close = async () => {
      await client.end();
      await store.close();
    };
    return { store, run: async (statement) => void (await client.query(statement)), close };
  }

  test('are listed with those of the turn they came from, at any depth, rings included', async () => {
    const { store, run, close } = await opened();
    try {
      const request = { instruction: 'x', priority: 'normal' } as const;
      for (const turn of ['root', 'child', 'grandchild', 'stranger']) {
        await store.accept({ agentId: `of-${turn}`, agentTurnId: turn, request });
      }
      const enqueuedBy = (parent: string, child: string) =>
        run(`update execution_edges set source_agent_id = 'of-${parent}', source_agent_turn_id = '${parent}', source_step_index = 1
             where target_agent_turn_id = '${child}'`);
      await run('update execution_edges set created_at = 1');
      await enqueuedBy('root', 'child');
      await enqueuedBy('child', 'grandchild');
      const targets = async (turn: string) => (await store.listEdges(turn)).map((found) => found.targetAgentTurnId);
      expect(await targets('root')).toEqual(['root', 'child', 'grandchild']);
      expect(await targets('child')).toEqual(['child', 'grandchild']);
      expect(await targets('stranger')).toEqual(['stranger']);
      const tree = callTree('root', await store.listEdges('root'));
      expect(tree?.children).toMatchObject([{ agentTurnId: 'child', children: [{ agentTurnId: 'grandchild' }] }]);
      // No further turn is read beyond so many edges, or levels, and the one that is left out says so.
      for (const bounds of [
        { edges: 3, levels: 9 },
        { edges: 9, levels: 2 },
      ]) {
        const cut = callTree('root', await store.listEdges('root', bounds));
        expect(cut?.children).toMatchObject([
          {
            agentTurnId: 'child',
            status: 'open',
            children: [{ agentTurnId: 'grandchild', status: 'not_read', children: [] }],
          },
        ]);
      }
      await enqueuedBy('grandchild', 'root');
      expect((await targets('root')).sort()).toEqual(['child', 'grandchild', 'root']);
    } finally {
      await close();
    }
  });
});
