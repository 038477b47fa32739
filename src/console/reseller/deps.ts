import type { Reads } from '../../../projections/engine/reads.ts'
import type { Resellers } from '../../market/resellers/service.ts'
import type { CustomerDeps } from '../customer/deps.ts'

/** What the pages of resellers read from, and act through: the queries and services of the API and the commands. */
export type ResellerPagesDeps = CustomerDeps & {
  /** Of the books, which margins and statements are read from. */
  readonly bookReads: Pick<Reads, 'settled'>
  readonly resellers: Pick<Resellers, 'change' | 'setGateway' | 'read'>
  /** Where callbacks of a gateway are taken. */
  readonly callbackUrl: (reference: string) => string
  /** Whether this installation runs stand-ins of the providers. */
  readonly sandboxed: boolean
}
