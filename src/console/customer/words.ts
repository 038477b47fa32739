import type { OrderStatus } from '../../market/orders/fold.ts'
import type { PlanStatus } from '../../market/plans/record.ts'
import { type Html, html } from '../../platform/pages/html.ts'

export type Look = 'good' | 'warn' | 'bad' | 'off'

/** A state by its word and a shape of its own; colour only helps. */
export const stateText = (word: string, look: Look): Html => html`<span class="state ${look}">${word}</span>`

const orderLooks: Readonly<Record<OrderStatus, readonly [string, Look]>> = {
  awaiting_payment: ['awaits payment', 'warn'],
  processing: ['processing', 'warn'],
  completed: ['completed', 'good'],
  failed: ['failed', 'bad'],
  refunded: ['refunded', 'off'],
  canceled: ['canceled', 'off'],
}

export const orderState = (status: OrderStatus): Html => stateText(...orderLooks[status])

const planLooks: Readonly<Record<PlanStatus, Look>> = { active: 'good', depleted: 'bad', expired: 'off' }

export const planState = (status: PlanStatus, low: boolean): Html =>
  status === 'active' && low ? stateText('low', 'warn') : stateText(status, planLooks[status])

/** Where a page of a list begins: the time and id of the row before it, as they stand in a link. */
export const afterText = (at: string, id: string): string => `${at}_${id}`

/** What `afterText` wrote, or null for anything else: the list then begins with the newest. */
export const afterOf = (text: string | null): { readonly at: string; readonly id: string } | null => {
  const [, at = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([a-z]{3}_[0-9a-f]{32})$/.exec(text ?? '') ?? []
  return at === '' || Number.isNaN(Date.parse(at)) ? null : { at, id }
}
