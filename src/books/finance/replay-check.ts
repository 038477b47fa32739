import type pg from 'pg'
import { closingMicros, sumAccounts } from './journal-sums.ts'
import { type Replayed, type ReplayOptions, replay } from './replay.ts'

/** An account whose balance in the tables is not the one that the log gives, in micro-dollars. */
export type ReplayDifference = {
  readonly book: string
  readonly account: string
  readonly logMicros: bigint
  readonly tableMicros: bigint
}

export type ReplayCheck = Omit<Replayed, 'sums'> & {
  /** Accounts that were compared. */
  readonly accounts: number
  readonly differences: readonly ReplayDifference[]
}

/**
 * Folds the log from its start into balances, as `replay`, and holds them against the journal's tables as of the same
 * position, which these must have passed. It changes nothing.
 */
export const checkReplay = async (pool: pg.Pool, options: ReplayOptions): Promise<ReplayCheck> => {
  const { sums, ...replayed } = await replay(options)
  const kept = await sumAccounts(pool, { after: 0, to: replayed.position }, { book: null, depth: null })
  type Found = { readonly book: string; readonly account: string; log: bigint; table: bigint }
  const found = new Map<string, Found>()
  const foundOf = ({ book, account }: { readonly book: string; readonly account: string }): Found => {
    const key = `${book} ${account}`
    const known = found.get(key) ?? { book, account, log: 0n, table: 0n }
    found.set(key, known)
    return known
  }
  for (const each of sums) foundOf(each).log = closingMicros(each)
  for (const each of kept) foundOf(each).table = closingMicros(each)
  return {
    ...replayed,
    accounts: found.size,
    differences: [...found.values()]
      .filter(({ log, table }) => log !== table)
      .map(({ book, account, log, table }) => ({ book, account, logMicros: log, tableMicros: table })),
  }
}
