import type { ReadModel } from '../../../../projections/engine/read-model.ts'
import type { LedgerEvent } from '../../../money/ledger/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import { violate } from './violation.ts'

const ledgerPrefix = 'ledger-'

/** What is wrong with who paid an order, or null. */
const problemOf = (event: RecordedEvent<LedgerEvent>): string | null => {
  if (event.type !== 'WalletDebited' && event.type !== 'CustomerCharged') return null
  const { orderId, keyId } = event.data.order
  const { actor } = event.metadata
  const accountId = event.stream.slice(ledgerPrefix.length)
  switch (actor.kind) {
    case 'session':
      if (actor.subjectId !== accountId)
        return `a session of ${actor.subjectId} paid order ${orderId} of ${accountId}`
      return keyId === null ? null : `a session paid order ${orderId}, which names key ${keyId}`
    case 'key':
      if (actor.accountId !== accountId)
        return `a key of ${actor.accountId} paid order ${orderId} of ${accountId}`
      return keyId === null ? `key ${actor.keyId} paid order ${orderId}, which names no key` : null
    default:
      return null
  }
}

/**
 * An order is paid by its own account: with a key, which it names, or in a session, which names none. So no order escapes
 * the cap of the key that asked for it, and none uses up that of another.
 */
export const payerRules: ReadModel = {
  name: 'audit-payers',
  version: 1,
  tables: [],
  takes: { types: new Set(['WalletDebited', 'CustomerCharged']) },
  reads: () => [],
  apply: (event, rows) => {
    const problem = problemOf(event as RecordedEvent<LedgerEvent>)
    if (problem !== null) violate(rows, event, 'order-payer', problem)
  },
}
