import type { OrderId } from '../../kernel/ids.ts'
import type { LedgerEvent } from '../../money/ledger/events.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { StreamName } from '../../terms/streams.ts'
import { ExtensionsUnread, keepsMoney } from './extended.ts'
import { type RefundEvidence, RefundForgotten } from './land-refund.ts'
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
 * Runs what lands refunds. Where the wallet has forgotten whether one was paid, its whole stream is looked through, and
 * it runs again with what that says: a refund is paid once, however late it is finished. Where rentals were extended,
 * the streams of the extensions are read, and it runs again with what those say.
 */
export const withRefundEvidence = async <Value>(
  log: EventLog,
  ledger: StreamName,
  run: (evidence: RefundEvidence) => Promise<Value>,
): Promise<Value> => {
  const evidence = new Map<string, boolean>()
  for (;;)
    try {
      return await run(evidence)
    } catch (error) {
      if (error instanceof RefundForgotten && !evidence.has(error.refundId))
        evidence.set(error.refundId, await moneyMoved(log, ledger, error.refundId))
      else if (error instanceof ExtensionsUnread)
        for (const orderId of error.orderIds) evidence.set(orderId, await isPaid(log, orderId))
      else throw error
    }
}
