import type { OrderStatus } from '../../domain/orders/fold.ts'
import type { Html } from '../../platform/ui/html.ts'
import { type BadgeTone, stateText } from '../../platform/ui/text.ts'

export const orderBadges: Readonly<Record<OrderStatus, readonly [string, BadgeTone]>> = {
  awaiting_payment: ['awaits payment', 'warn'],
  processing: ['processing', 'warn'],
  completed: ['completed', 'good'],
  failed: ['failed', 'bad'],
  refunded: ['refunded', 'off'],
  canceled: ['canceled', 'off'],
}

export const orderState = (status: OrderStatus): Html => stateText(...orderBadges[status])
