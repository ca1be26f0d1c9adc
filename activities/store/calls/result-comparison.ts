/** Whether a report says what the result of its call says already: a delivery that is repeated is no second answer. */
import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import { bringsResult, type ResultComparison } from '../../../workflows/contract/calls.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { canonicalDigest } from '../../canonical.ts';
import { resultCardId } from '../../ids.ts';
import { storedJson } from '../../well-formed.ts';
import { read, type StoreContext } from '../context.ts';
import { contentOf } from '../schema/rows.ts';
import { turnOf } from '../turns/turns.ts';
import { findCall } from './call-cards.ts';
import { bodyOf, resultContent } from './reported-results.ts';

/** Compares a report with the result of its call. */
export const compareResult = (
  ctx: StoreContext,
  agentTurnId: string,
  report: ToolResultReport,
  border: Border = NO_BORDER,
): Promise<ResultComparison> =>
  read(ctx, async (reader) => {
    const row = await reader.db
      .selectFrom('cards')
      .select(['type', 'content'])
      .where('card_id', '=', resultCardId(agentTurnId, report.callId))
      .executeTakeFirst();
    if (!row) return 'none';
    const call = await findCall(reader, agentTurnId, report.callId);
    const turn = await turnOf(reader, agentTurnId);
    const body = await bodyOf(reader, turn, seesAll(border) ? report : { ...report, within: border });
    if (!call || !body || !bringsResult(report)) return 'other';
    const said = resultContent(call.content, 'continue', report, body);
    return digestOf(said) === digestOf(contentOf(row, 'tool.result')) ? 'same' : 'other';
  });

/** What was reported, in the characters that every backend keeps. */
const digestOf = ({ status, result, error }: ToolResultContent): string =>
  canonicalDigest(
    JSON.parse(storedJson({ status, result, error }), (_, value: unknown) =>
      typeof value === 'string' ? value.replaceAll('\u0000', '\ufffd') : value,
    ),
  );
