import { type OrderStatus, waitsFor } from '../../domain/orders/fold.ts'
import type { Html } from '../../platform/ui/html.ts'
import { type BadgeTone, stateText } from '../../platform/ui/text.ts'

const orderBadges: Readonly<Record<OrderStatus, readonly [string, BadgeTone]>> = {
  awaiting_payment: ['awaits payment', 'warn'],
  processing: ['processing', 'warn'],
  completed: ['completed', 'good'],
  failed: ['failed', 'bad'],
  refunded: ['refunded', 'off'],
  canceled: ['canceled', 'off'],
}

/** The badge of an order: the text of its status, or of the wallet that it waits for. */
export const orderBadge = (order: Parameters<typeof waitsFor>[0]): readonly [string, BadgeTone] =>
  waitsFor(order) === 'wallet' ? ['waits for the wallet', 'bad'] : orderBadges[order.status]

export const orderState = (order: Parameters<typeof orderBadge>[0]): Html => stateText(...orderBadge(order))
