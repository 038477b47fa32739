import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { Reads } from '../../../projections/engine/reads.ts'
import type { Accounts } from '../../market/accounts/service.ts'
import type { LiveStock } from '../../market/catalog/availability.ts'
import type { Catalog } from '../../market/catalog/catalog.ts'
import type { TermsOf } from '../../market/catalog/pricing.ts'
import type { Customers } from '../../market/customers/service.ts'
import type { LabelDatabase } from '../../market/labels/database.ts'
import type { OrderService } from '../../market/orders/service.ts'
import type { TrafficDatabase } from '../../market/plans/migrations.ts'
import type { DepositPagesDatabase } from '../../money/deposits/database.ts'
import type { Deposits } from '../../money/deposits/service.ts'
import type { Gateways } from '../../money/payments/port.ts'
import type { ReadMarkDatabase } from '../../outbound/notices/read-marks.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Assets } from '../frame/assets.ts'

/** What the pages of customers read from: the queries and services of the API. */
export type CustomerDeps = {
  readonly pool: pg.Pool
  readonly db: Kysely<
    ReadDatabase & LabelDatabase & ReadMarkDatabase & TrafficDatabase & DepositPagesDatabase
  >
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly accounts: Accounts
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly termsOf: TermsOf
  readonly customers: Customers
  readonly orders: OrderService
  readonly deposits: Pick<Deposits, 'open'>
  readonly gateways: Pick<Gateways, 'liveRails' | 'forRail'>
  /** Where people reach the console. */
  readonly origin: () => string
  /** The path of an island. */
  readonly island: Assets['island']
}
