import type { ProposalEvent } from '../../domain/ledger/approvals.ts'
import { movementProposalId, proposalIdOf } from '../../domain/ledger/decide-approval.ts'
import { movementIdOf } from '../../domain/ledger/decide-manual.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { OrderId } from '../../kernel/ids.ts'
import { depositStream, orderStream, proposalStream, type StreamName } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { EntryLine, JournalEntry } from './journal.ts'

/** Why a person made an entry, and who proposed and approved it. */
export type CauseByHand = {
  /** The typed reason, if the entry's reference is not it; null: it is, or there is none. */
  readonly reason: string | null
  /** The approved proposal; null: one operator was enough. */
  readonly proposalId: string | null
  readonly proposedBy: string | null
  readonly approvedBy: string | null
}

export type EntryByHand = JournalEntry & CauseByHand

type Caused = Pick<
  EntryLine,
  | 'position'
  | 'type'
  | 'kind'
  | 'accountId'
  | 'orderId'
  | 'customerId'
  | 'depositId'
  | 'reference'
  | 'reason'
  | 'proposalId'
>

/** The id of a proposal of this entry, if there was one; null: it has none. */
const proposalOf = ({ type, kind, accountId, customerId, reference, proposalId }: Caused): string | null => {
  if (accountId === null || reference === null) return proposalId
  if (kind === 'order_refund') return proposalIdOf({ kind: 'refund', refundId: reference })
  const movement = { accountId, reference }
  switch (type) {
    case 'FundsHeld':
      return proposalIdOf({ kind: 'deposit_refund', refundId: reference })
    case 'WalletCredited':
      return movementProposalId(accountId, movementIdOf({ kind: 'credit', ...movement }))
    case 'WalletAdjusted':
      return movementProposalId(accountId, movementIdOf({ kind: 'adjustment', ...movement }))
    case 'CustomerAdjusted':
      if (customerId === null) return null
      return movementProposalId(accountId, movementIdOf({ kind: 'customer', customerId, ...movement }))
    default:
      return null
  }
}

/** The stream with the reason of a refund; null: the entry is no refund. */
const refundStreamOf = ({ type, kind, orderId, depositId }: Caused): StreamName | null => {
  if (kind === 'order_refund' && orderId !== null) return orderStream(orderId as OrderId)
  return type === 'FundsHeld' && depositId !== null ? depositStream(depositId) : null
}

/** Streams in one read. */
const batchSize = 200

const readStreams = async (
  log: Pick<EventLog, 'readStreams'>,
  streams: readonly StreamName[],
): Promise<ReadonlyMap<StreamName, readonly RecordedEvent[]>> => {
  const unique = [...new Set(streams)]
  const events = new Map<StreamName, readonly RecordedEvent[]>()
  for (let from = 0; from < unique.length; from += batchSize) {
    const tails = unique.slice(from, from + batchSize).map((stream) => ({ stream, from: 0 }))
    for (const [stream, stored] of await log.readStreams(tails))
      events.set(
        stream,
        stored.map((each) => decode(each)),
      )
  }
  return events
}

type ProposedOrApproved = Exclude<RecordedEvent<ProposalEvent>, { readonly type: 'ProposalClosed' }>

/** Reads from the log why persons made these entries, and who proposed and approved them; by position. */
export const readCauses = async (
  log: Pick<EventLog, 'readStreams'>,
  entries: readonly Caused[],
): Promise<ReadonlyMap<number, CauseByHand>> => {
  const sources = entries.map((entry) => {
    const proposalId = proposalOf(entry)
    return {
      entry,
      proposalId,
      proposal: proposalId === null ? null : proposalStream(proposalId),
      refund: refundStreamOf(entry),
    }
  })
  const streams = sources.flatMap(({ proposal, refund }) => [proposal, refund])
  const events = await readStreams(
    log,
    streams.filter((stream) => stream !== null),
  )
  const eventsOf = (stream: StreamName | null) => (stream && events.get(stream)) ?? []
  return new Map(
    sources.map(({ entry, proposalId, proposal, refund }) => {
      const byOf = (type: ProposedOrApproved['type']): string | null => {
        const event = eventsOf(proposal).findLast((each) => each.type === type)
        return event === undefined ? null : (event as ProposedOrApproved).data.by
      }
      const approvedBy = byOf('ProposalApproved')
      const decided = eventsOf(refund).find(
        ({ type, data }) =>
          ['RefundDecided', 'DepositRefundRequested'].includes(type) &&
          (data as { readonly refundId: string }).refundId === entry.reference,
      )
      const typed = (decided?.data as { readonly reference?: string } | undefined)?.reference ?? null
      return [
        entry.position,
        {
          reason: entry.reason ?? typed,
          proposalId: approvedBy === null ? null : proposalId,
          proposedBy: approvedBy === null ? null : byOf('ProposalMade'),
          approvedBy,
        },
      ] as const
    }),
  )
}
