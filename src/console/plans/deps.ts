import type { LineDesk } from '../../gateway/desk/line-desk.ts'
import type { AddToWhitelist } from '../../gateway/desk/whitelisting.ts'
import type { Places } from '../../gateway/exits/places.ts'
import type { Whitelist } from '../../gateway/lines/whitelist.ts'
import type { Gateway } from '../../market/plans/record.ts'
import type { Family } from '../../terms/order-details.ts'
import type { CustomerDeps } from '../customer/deps.ts'

/** What the pages of plans read from and act through: what the operations of the API do. */
export type PlanPagesDeps = CustomerDeps & {
  /** Where clients connect to. */
  readonly gateway: Gateway
  readonly lines: LineDesk
  readonly whitelist: Pick<Whitelist, 'list' | 'remove'>
  readonly addToWhitelist: AddToWhitelist
  /** Where lines can go out now. */
  readonly places: (family: Family | null) => Places
  /** What a line is tried with: a page that says where a request comes from, or any other. */
  readonly tryUrl: string
  /** Resolves once the exits are known as they are now, or were a moment ago. */
  readonly exitsRecent: () => Promise<void>
}
