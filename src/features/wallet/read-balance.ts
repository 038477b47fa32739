import { createAvailableMicros } from '../../../projections/balances.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'

/** The spendable balance of an account, whole cents rounded down, including the account's own latest changes. */
export type ReadBalance = (account: AccountId) => Promise<number>

export const createReadBalance = ({
  db,
  reads,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): ReadBalance => {
  const availableMicros = createAvailableMicros(db)
  return async (account) => {
    await reads.settled(account)
    return microsToCentsFloor(await availableMicros(account))
  }
}
