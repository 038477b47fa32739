import type { OrderId } from '../../kernel/ids.ts'
import type { LedgerEvent } from '../../money/ledger/events.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { CommandOutcome } from '../../platform/eventstore/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { StreamName } from '../../terms/streams.ts'
import { keepsMoney, type NeedsEvidence, type RefundEvidence } from './extended.ts'
import { readOrder } from './read-order.ts'

/** Whether a wallet's stream has the money of a refund. Reads all of it: this is asked once in a long while. */
const moneyMoved = async (log: EventLog, ledger: StreamName, refundId: string): Promise<boolean> => {
  for await (const stored of log.readStream(ledger)) {
    if (stored.type !== 'WalletCredited' && stored.type !== 'CustomerRefunded') continue
    const { type, data } = decode(stored) as LedgerEvent
    if (type === 'WalletCredited' && data.source === 'refund' && data.reference === refundId) return true
    if (type === 'CustomerRefunded' && data.reference === refundId) return true
  }
  return false
}

/** An extension that its own stream does not know yet was paid a moment ago. */
const isPaid = async (log: EventLog, orderId: string): Promise<boolean> => {
  const order = await readOrder(log, orderId as OrderId)
  return order === null || keepsMoney(order)
}

/**
 * Runs what lands refunds until it needs nothing more. Where the wallet has forgotten whether one was paid, its whole
 * stream is looked through: a refund is paid once, however late it is finished. Where rentals were extended, the streams
 * of the extensions are read.
 */
export const withRefundEvidence = async <Answer extends { readonly kind: string }>(
  log: EventLog,
  ledger: StreamName,
  run: (evidence: RefundEvidence) => Promise<CommandOutcome<Answer | NeedsEvidence>>,
): Promise<CommandOutcome<Exclude<Answer, NeedsEvidence>>> => {
  const evidence = new Map<string, boolean>()
  for (;;) {
    const outcome = await run(evidence)
    const { answer } = outcome
    if (!isNeeds(answer)) return { ...outcome, answer: answer as Exclude<Answer, NeedsEvidence> }
    const missing = [...answer.refundIds, ...answer.extensionIds].filter((id) => !evidence.has(id))
    if (missing.length === 0) throw new Error('evidence that was looked up is asked for again')
    for (const id of answer.refundIds) evidence.set(id, await moneyMoved(log, ledger, id))
    for (const id of answer.extensionIds) evidence.set(id, await isPaid(log, id))
  }
}

const isNeeds = (answer: { readonly kind: string }): answer is NeedsEvidence => answer.kind === 'needs'
