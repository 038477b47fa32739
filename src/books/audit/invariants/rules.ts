import type { ReadModel } from '../../../../projections/engine/read-model.ts'
import { approvalRules } from './approvals.ts'
import { authorityRules } from './authority.ts'
import { batchRules } from './batches.ts'
import { capRules } from './caps.ts'
import { commitmentRules } from './commitments.ts'
import { decidedRules } from './decided.ts'
import { deliveryRules } from './deliveries.ts'
import { goodsRules } from './goods.ts'
import { marginRules } from './margins.ts'
import { movementRules } from './movements.ts'
import { orderRules } from './orders.ts'
import { payerRules } from './payers.ts'
import { periodRules } from './periods.ts'
import { planRules } from './plans.ts'
import { priceRules } from './prices.ts'
import { reasonRules } from './reasons.ts'
import { scrapePriceRules } from './scrape-prices.ts'
import { scrapeRules } from './scrapes.ts'
import { statementRules } from './statements.ts'
import { stockRules } from './stock.ts'
import { subscriptionRules } from './subscriptions.ts'
import { violationsTable } from './violation.ts'
import { walletRules } from './wallets.ts'

/** Only the table that all rules write what they find to. */
const found: ReadModel = {
  name: 'audit-found',
  version: 1,
  tables: [violationsTable],
  takes: { types: new Set() },
  reads: () => [],
  apply: () => undefined,
}

/** Every law that the events of a log must keep among each other. A new one is one more model here. */
export const rules: readonly ReadModel[] = [
  found,
  walletRules,
  movementRules,
  reasonRules,
  statementRules,
  approvalRules,
  orderRules,
  // Before the laws of stock and plans: it looks at rentals and plans as they were.
  goodsRules,
  marginRules,
  stockRules,
  planRules,
  subscriptionRules,
  capRules,
  payerRules,
  periodRules,
  scrapeRules,
  scrapePriceRules,
  batchRules,
  deliveryRules,
  commitmentRules,
  priceRules,
  decidedRules,
  authorityRules,
]
