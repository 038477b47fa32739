import type { ProposalRow } from '../../../projections/proposals.ts'
import { approvalLimitAt } from '../../domain/ledger/approvals.ts'
import { isoTime } from '../../kernel/clock.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { requireReadTable } from '../../platform/cli/options.ts'
import { type CliOutput, CliRefusal, dollars, fields, table } from '../../platform/cli/output.ts'
import { createMeter } from '../plans/index.ts'
import { approvalNeeded, approvalRefusal, refusalOf } from '../wallet/index.ts'
import {
  createProposals,
  limitText,
  proposalsAfter,
  readProposal,
  statusOf,
  whatText,
} from './approval-service.ts'

const jsonOf = (row: ProposalRow, nowMs: number) => ({
  proposalId: row.proposalId,
  status: statusOf(row, nowMs),
  what: row.what,
  accountId: row.accountId,
  proposedBy: row.proposedBy,
  proposedAt: row.proposedAt,
  expiresAt: row.expiresAt,
  closedBy: row.closedBy,
  closedAt: row.closedAt,
  note: row.note,
})

const proposalsOf = (context: CliContext) =>
  createProposals({ ...context, settleTraffic: createMeter(context).settle })

const readable = async ({ pool, db }: CliContext) => {
  await requireReadTable(pool, 'read.proposals')
  return db
}

export const list = async (
  context: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
): Promise<CliOutput> => {
  const db = await readable(context)
  const nowMs = context.clock()
  const rows = await proposalsAfter(db, { waiting: !all, after: null, limit, nowMs })
  return {
    json: { proposals: rows.map((row) => jsonOf(row, nowMs)) },
    text: table(
      rows,
      [
        { title: 'proposal', value: (row) => row.proposalId },
        { title: 'state', value: (row) => statusOf(row, nowMs) },
        { title: 'what', value: (row) => whatText(row.what) },
        { title: 'account', value: (row) => row.accountId ?? '-' },
        { title: 'by', value: (row) => row.proposedBy },
        { title: 'until', value: (row) => row.expiresAt },
      ],
      all ? 'nothing was proposed yet' : 'nothing waits for approval; --all shows the rest',
    ),
  }
}

export const show = async (context: CliContext, proposalId: string): Promise<CliOutput> => {
  const row = await readProposal(context, proposalId)
  if (row === null) throw approvalRefusal({ code: 'unknown_proposal' })
  const { what: _, ...proposalFields } = jsonOf(row, context.clock())
  return {
    json: jsonOf(row, context.clock()),
    text: fields({ what: whatText(row.what), ...proposalFields }),
  }
}

export const approve = async (context: CliContext, proposalId: string): Promise<CliOutput> => {
  const approved = await proposalsOf(context).approve(proposalId, context)
  if ('outcome' in approved) throw approvalRefusal(approved.refusal)
  const { of, answer } = approved
  if (of === 'movement') {
    if (answer.outcome === 'refused') throw refusalOf(answer.refusal)
    const amountCents = microsToCentsFloor(answer.amountMicros)
    return {
      json: { proposalId, of, amountCents, balanceCents: answer.balanceCents },
      text: `approved: moved ${dollars(amountCents)}; ${dollars(answer.balanceCents)} are there now`,
    }
  }
  if (of === 'refund') {
    if (answer.kind === 'refused')
      throw new CliRefusal('refund_refused', `nothing moved: ${answer.reason}`, answer.extended)
    if (answer.kind === 'already_applied')
      throw new CliRefusal('already_applied', 'it was refunded before; nothing moved now')
    const { amountCents, keptProxyIds } = answer
    return {
      json: { proposalId, of, refundCents: amountCents, keptProxyIds },
      text: `approved: refunded ${dollars(amountCents)}`,
    }
  }
  const { fromMs } = answer
  return {
    json: { proposalId, of, from: isoTime(fromMs) },
    text: `approved: holds from ${isoTime(fromMs)} on`,
  }
}

const close =
  (reason: 'declined' | 'withdrawn') =>
  async (
    context: CliContext,
    proposalId: string,
    { note }: { readonly note?: string },
  ): Promise<CliOutput> => {
    const answer = await proposalsOf(context).close(proposalId, { reason, note: note ?? null }, context)
    if (answer.outcome === 'refused') throw approvalRefusal(answer.refusal)
    return {
      json: { proposalId, status: reason, changed: answer.now },
      text: `${answer.now ? reason : `was ${reason} before:`} ${proposalId}`,
    }
  }

export const set = async (context: CliContext, limitCents: number | null): Promise<CliOutput> => {
  const answer = await proposalsOf(context).setLimit(limitCents, context)
  if (answer.outcome !== 'set') throw approvalNeeded(answer)
  const from = isoTime(answer.fromMs)
  const message = answer.changed
    ? `set: four eyes ${limitText(limitCents)}, from ${from} on`
    : 'it was so before'
  return { json: { limitCents, from, changed: answer.changed }, text: message }
}

export const setting = async (context: CliContext): Promise<CliOutput> => {
  const limits = await proposalsOf(context).limits(context)
  const nowMs = context.clock()
  const limitCents = approvalLimitAt(limits, nowMs)
  const last = limits.at(-1)
  const next =
    last && last.fromMs > nowMs ? { limitCents: last.limitCents, from: isoTime(last.fromMs) } : null
  return {
    json: { limitCents, next },
    text: fields({
      'four eyes': limitText(limitCents),
      ...(next && { next: `${limitText(next.limitCents)}, from ${next.from} on` }),
    }),
  }
}

export const decline = close('declined')

export const withdraw = close('withdrawn')
