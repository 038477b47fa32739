import type pg from 'pg'
import type { AccountId } from '../../kernel/ids.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import type { Column } from '../../platform/ui/table.ts'
import { softText } from '../../platform/ui/text.ts'
import { customerRefs } from './customers.ts'

/** A row with the reseller's own id of its customer; null: it has no customer, or the customer was erased. */
export type OfCustomer<Row> = Row & { readonly customer?: string | null }

export const withCustomers = async <Row>(
  pool: pg.Pool,
  reseller: AccountId,
  rows: readonly Row[],
  customerIdOf: (row: Row) => string | null,
): Promise<readonly OfCustomer<Row>[]> => {
  const refs = await customerRefs(pool, reseller, rows.map(customerIdOf))
  return rows.map((row) => ({ ...row, customer: refs.get(customerIdOf(row)) ?? null }))
}

/** A link to the page of a customer. `ref` is the reseller's own id; null: the customer was erased. */
export const customerLink = (customerId: string, ref: string | null | undefined): Html =>
  html`<a href="/console/reseller/customers/${customerId}">${ref ?? customerId}</a>`

/** The customer of a row, for the lists of resellers. */
export const customerColumn = <Row>(customerIdOf: (row: Row) => string | null): Column<OfCustomer<Row>> => ({
  title: 'Customer',
  place: 'plain',
  value: (row) => row.customer ?? customerIdOf(row),
  cell: (row) => {
    const customerId = customerIdOf(row)
    return customerId === null ? softText('yourself') : customerLink(customerId, row.customer)
  },
})
