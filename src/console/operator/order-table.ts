import type { FoundOrder } from '../../market/orders/queries.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { orderState } from '../customer/words.ts'
import type { Role } from '../frame/roles.ts'
import { tableOf } from '../frame/table.ts'
import { amountText, timeText } from '../frame/text.ts'
import { linkedText } from '../staff/trail.ts'

/** Orders, each with a link to its page for operators. */
export const orderTable = ({
  caption,
  rows,
  empty,
  roles,
}: {
  readonly caption: string
  readonly rows: readonly FoundOrder[]
  readonly empty: string
  readonly roles: ReadonlySet<Role>
}): Html =>
  tableOf({
    caption,
    rows,
    empty: html`<p>${empty}</p>`,
    columns: [
      {
        title: 'Order',
        head: true,
        cell: ({ details }) =>
          html`${linkedText(details.orderId, roles)}<br><small>${details.quantity} ${details.unit} ${details.productId}</small>`,
      },
      { title: 'State', cell: ({ status }) => orderState(status) },
      { title: 'Amount, USD', number: true, cell: ({ details }) => amountText(details.amountCents) },
      { title: 'Came back, USD', number: true, cell: ({ refundedCents }) => amountText(refundedCents) },
      { title: 'Ordered', cell: ({ details }) => timeText(details.createdAt) },
    ],
  })
