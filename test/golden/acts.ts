import { accountFold } from '../../src/domain/accounts/fold.ts'
import { decideManual, manualStream } from '../../src/domain/ledger/decide-manual.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import type { ManualMovement } from '../../src/domain/ledger/manual-movements.ts'
import { manualFold } from '../../src/domain/ledger/manual-movements.ts'
import { decideCompletion } from '../../src/domain/orders/decide-completion.ts'
import { decidePlacement } from '../../src/domain/orders/decide-placement.ts'
import type { RefundRequest } from '../../src/domain/orders/refunds.ts'
import { decideRefund } from '../../src/domain/orders/refunds.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import type { KeyCap } from '../../src/kernel/scopes.ts'
import { accountStream, ledgerStream } from '../../src/kernel/streams.ts'
import type { History } from './history.ts'
import { priced } from './priced.ts'

/** What happens again and again in a golden history. `limit` leaves the first appends only, as a crash would. */
export const createActs = (history: History) => {
  const { write, state, states, now } = history
  const orders = new Map<string, OrderDetails>()

  return {
    move: (movement: ManualMovement, limit?: number): void => {
      const id = movement.accountId as AccountId
      const guard = manualStream(movement)
      const found = {
        account: state(accountStream(id), accountFold),
        movement: state(guard, manualFold),
        ledger: state(ledgerStream(id), ledgerFold),
      }
      write(decideManual(found, movement).appends, limit)
    },
    place: (details: OrderDetails, limit?: number, cap: KeyCap | null = null): void => {
      const order = priced(history, details)
      const { createdAt: _, ...draft } = order
      const { appends, answer } = decidePlacement(states(order), { draft, cap }, now())
      if (answer.kind !== 'placed') throw new Error(`${order.orderId}: ${JSON.stringify(answer)}`)
      orders.set(order.orderId, answer.order.details)
      write(appends, limit)
    },
    complete: (id: string): void => {
      const order = orders.get(id)!
      const { availableMicros } = states(order).ledger
      write(decideCompletion(states(order), { order, availableAfterMicros: availableMicros }, now()).appends)
    },
    refund: (id: string, request: RefundRequest): void => {
      const { appends, answer } = decideRefund(states(orders.get(id)!), `ref_${id}`, request, now())
      if (answer.kind !== 'refunded') throw new Error(`${id}: ${JSON.stringify(answer)}`)
      write(appends)
    },
  }
}

export type Acts = ReturnType<typeof createActs>
