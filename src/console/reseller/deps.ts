import type { Reads } from '../../../projections/engine/reads.ts'
import type { CustomerDeps } from '../customer/deps.ts'

/** What the pages of resellers read from: the queries of the API. */
export type ResellerPagesDeps = CustomerDeps & {
  /** Of the books, which margins and statements are read from. */
  readonly bookReads: Pick<Reads, 'settled'>
}
