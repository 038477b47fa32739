import { type FoundDeposit, listDeposits } from '../../../projections/deposits.ts'
import { floorCents, type ResellerRail } from '../../domain/payments/payments.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, DepositId } from '../../kernel/ids.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Customers } from '../accounts/index.ts'
import type { OpenDepositByForm } from '../deposits/index.ts'

/** The reseller's own customer id for test invoices. */
export const tester = 'gateway-test'
const maxListed = 10

/** Invoices that test a reseller's gateway. */
export type TestInvoices = {
  /** The latest ones of a rail, newest first. */
  latest(reseller: AccountId, rail: ResellerRail): Promise<readonly FoundDeposit[]>
  /**
   * Creates an invoice of the minimum amount.
   * @param form the key of the submitted form, and the path of its page
   * @throws ApiError as `Deposits.open`
   */
  open(
    reseller: AccountId,
    rail: ResellerRail,
    form: { readonly key: string; readonly path: string },
    cause: Cause,
  ): Promise<DepositId>
}

export const createTestInvoices = ({
  db,
  reads,
  customers,
  openDeposit,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly customers: Pick<Customers, 'idOf' | 'ensure'>
  readonly openDeposit: OpenDepositByForm
}): TestInvoices => ({
  latest: async (accountId, rail) => {
    await reads.settled(accountId)
    const scope = { accountId, customerId: customers.idOf(accountId, tester) }
    const { deposits } = await listDeposits(db, scope, { limit: 50, offset: 0, status: undefined })
    return deposits.filter((row) => row.rail === rail).slice(0, maxListed)
  },
  open: (accountId, rail, form, cause) =>
    openDeposit(
      {
        ...form,
        accountId,
        customerId: customers.idOf(accountId, tester),
        relate: async () => void (await customers.ensure(accountId, tester)),
        amountCents: floorCents(rail),
        rail,
      },
      cause,
    ),
})
