/** The call tree as people read it. */
import type { CallNode, TreeNode, TurnNode } from '../../workflows/contract/call-tree.ts';
import { duration, time } from './format.ts';

/** The tree as lines with branches, its root first. */
export function treeLines(root: TurnNode): string[] {
  const lines = [`${label(root)}, accepted ${time(root.startedAt)}`];
  const draw = (children: readonly TreeNode[], margin: string): void => {
    for (const [index, child] of children.entries()) {
      const last = index === children.length - 1;
      const at = duration(child.startedAt - root.startedAt);
      lines.push(`${margin}${last ? '└─ ' : '├─ '}+${at}  ${label(child)}`);
      if (child.node !== 'loose') draw(child.children, `${margin}${last ? '   ' : '│  '}`);
    }
  };
  draw(root.children, '');
  return lines;
}

function label(node: TreeNode): string {
  switch (node.node) {
    case 'turn':
      return `${stepOf(node)}turn ${node.agentTurnId} of ${node.agentId ?? '?'}: ${outcome(node)}`;
    case 'call':
      return `${stepOf(node)}${node.tool}: ${outcome(node)}`;
    case 'loose':
      return `${node.primitive}/${node.phase}${node.kind === null ? '' : ` (${node.kind})`} without a partner`;
  }
}

const stepOf = ({ stepIndex }: CallNode | TurnNode): string => (stepIndex === null ? '' : `step ${stepIndex} `);

const outcome = ({ status, startedAt, endedAt }: CallNode | TurnNode): string =>
  endedAt === null ? status : `${status} after ${duration(endedAt - startedAt)}`;
