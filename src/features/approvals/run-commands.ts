import type { ProposalRow } from '../../../projections/proposals.ts'
import { approvalLimitAt, type ProposedStatement } from '../../domain/ledger/approvals.ts'
import { isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import { amountWriter, microsToCentsFloor } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type CliOutput, CliRefusal, dollars, fields, table } from '../../platform/cli/output.ts'
import { depositRefundRefusal, resolutionRefusal } from '../deposits/index.ts'
import { gatewayIdsOf } from '../payments/index.ts'
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
  createProposals({
    ...context,
    ownGatewayIds: gatewayIdsOf(context.config.payments),
    settleTraffic: createMeter(context).settle,
  })

export const list = async (
  context: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
) => {
  const nowMs = context.clock()
  const found = await proposalsAfter(context.db, { waiting: !all, after: null, limit, nowMs })
  const proposals = found.map((row) => jsonOf(row, nowMs))
  return {
    json: { proposals },
    rows: proposals.map((proposal) => ({ ...proposal, whatText: whatText(proposal.what) })),
    empty: all ? 'no proposals' : 'no proposal needs approval; --all includes the others',
  }
}

const linesTable = ({ lines }: ProposedStatement): string => {
  const write = amountWriter(
    lines.flatMap(({ feeMicros, payoutMicros }) => [BigInt(feeMicros), BigInt(payoutMicros)]),
  )
  return table(lines, {
    id: 'reference',
    category: 'category',
    fee: ({ feeMicros }) => write(BigInt(feeMicros)),
    payout: ({ payoutMicros }) => write(BigInt(payoutMicros)),
    at: 'happenedAt',
    file: ({ file }) => file?.name,
    sha256: ({ file }) => file?.sha256,
  })
}

type ProposalInput = { readonly proposal: string }

export const show = async (context: CliContext, { proposal }: ProposalInput): Promise<CliOutput> => {
  const row = await readProposal(context, proposal)
  if (row === null) throw approvalRefusal({ code: 'unknown_proposal' })
  const json = jsonOf(row, context.clock())
  const { what, ...proposalFields } = json
  const text = fields({ what: whatText(what), ...proposalFields })
  return { json, text: what.kind === 'statement' ? `${text}\n\n${linesTable(what)}` : text }
}

export const approve = async (
  context: CliContext,
  { proposal: proposalId }: ProposalInput,
): Promise<CliOutput> => {
  const approved = await proposalsOf(context).approve(proposalId, context)
  if ('outcome' in approved) throw approvalRefusal(approved.refusal)
  if (approved.of === 'statement') {
    const { of, lines } = approved
    return { json: { proposalId, of, lines }, text: `approved: ${pluralize(lines, 'line')} booked` }
  }
  const { of, answer } = approved
  if (of === 'statement_correction')
    return {
      json: { proposalId, of, changed: answer.change !== null },
      text: 'approved: the line is corrected',
    }
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
  if (of === 'deposit_refund') {
    if (answer.outcome === 'refused') throw depositRefundRefusal(answer.refusal)
    return {
      json: { proposalId, of, refundCents: answer.amountCents },
      text: `approved: requested a refund of ${dollars(answer.amountCents)}`,
    }
  }
  if (of === 'unmatched') {
    if (answer.outcome === 'refused') throw resolutionRefusal(answer.refusal)
    const { accountId } = answer
    return { json: { proposalId, of, accountId }, text: `approved: booked to ${accountId}` }
  }
  const { fromMs } = answer
  return {
    json: { proposalId, of, from: isoTime(fromMs) },
    text: `approved: effective from ${isoTime(fromMs)}`,
  }
}

const close =
  (reason: 'declined' | 'withdrawn') =>
  async (
    context: CliContext,
    { proposal: proposalId, note }: ProposalInput & { readonly note?: string },
  ): Promise<CliOutput> => {
    const answer = await proposalsOf(context).close(proposalId, { reason, note: note ?? null }, context)
    if (answer.outcome === 'refused') throw approvalRefusal(answer.refusal)
    return {
      json: { proposalId, status: reason, changed: answer.now },
      text: `${answer.now ? reason : `was ${reason} before:`} ${proposalId}`,
    }
  }

export const set = async (
  context: CliContext,
  { limit: limitCents }: { readonly limit: number | null },
): Promise<CliOutput> => {
  const answer = await proposalsOf(context).setLimit(limitCents, context)
  if (answer.outcome !== 'set') throw approvalNeeded(answer)
  const from = isoTime(answer.fromMs)
  const message = answer.changed ? `set: four eyes ${limitText(limitCents)}, from ${from}` : 'unchanged'
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
      ...(next && { next: `${limitText(next.limitCents)}, from ${next.from}` }),
    }),
  }
}

export const decline = close('declined')

export const withdraw = close('withdrawn')
