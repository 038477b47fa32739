import { decode } from '../eventstore/codec.ts'
import type { EventLog, StreamName } from '../eventstore/port.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type RefundEvidence, RefundForgotten } from './refund.ts'

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

/**
 * Runs what lands refunds. Where the wallet has forgotten whether one was paid, its whole stream is looked through, and
 * it runs again with what that says: a refund is paid once, however late it is finished.
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
      if (!(error instanceof RefundForgotten) || evidence.has(error.refundId)) throw error
      evidence.set(error.refundId, await moneyMoved(log, ledger, error.refundId))
    }
}
