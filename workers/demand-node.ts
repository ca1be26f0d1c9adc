/**
 * Imported for what it does: it throws where this Node is too old. Native libraries of an older Node end the process without a word.
 *
 * Invariant: each entry of the package that a program imports imports this file first.
 */
import { nodeComplaint } from './node-version.ts';

const complaint = nodeComplaint();
if (complaint !== null) throw new Error(complaint);
