import { sha256 } from '../../kernel/digest.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import {
  createDispatch,
  type ReadModel,
  type ReadModelGroup,
  type RowKey,
} from '../../platform/projections/read-model.ts'
import { approvalRules } from './approval-invariants.ts'
import { authorityRules } from './authority-invariants.ts'
import { commitmentRules, deliveryRules } from './delivery-invariants.ts'
import { fulfilmentRules } from './fulfilment-invariants.ts'
import { marginRules } from './margin-invariants.ts'
import { decidedRules, movementRules, statementRules } from './movement-invariants.ts'
import { orderRules } from './order-invariants.ts'
import { periodRules } from './period-invariants.ts'
import { planRules } from './plan-invariants.ts'
import { priceRules } from './price-invariants.ts'
import { reasonRules } from './reason-invariants.ts'
import { batchRules, scrapePriceRules, scrapeRules } from './scrape-invariants.ts'
import { capRules, payerRules } from './spend-cap-invariants.ts'
import { stockRules } from './stock-invariants.ts'
import { subscriptionRules } from './subscription-invariants.ts'
import { recordViolation, violationsTable } from './violation.ts'
import { walletRules } from './wallet-invariants.ts'

/** Only the table that all rules write what they find to. */
const found: ReadModel = {
  name: 'audit-found',
  version: 3,
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
  fulfilmentRules,
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

/** Another text for any other list of rules: in a sum of versions, one that rises and one that falls cancel out. */
export const rulesDigest = (rules: readonly Pick<ReadModel, 'name' | 'version'>[]): string =>
  sha256(JSON.stringify(rules.map(({ name, version }) => [name, version]))).toString('hex')

const rulesFor = createDispatch(rules)

/** What a rule names of an event that it can read; another one is looked up row by row when it is applied. */
const nameRows = (rule: ReadModel, event: RecordedEvent, named: RowKey[]): void => {
  try {
    for (const row of rule.reads(event)) named.push(row)
  } catch {
    // It breaks the law when it is applied, where that is told.
  }
}

/**
 * All laws as one read model, which the running server folds. An event that a law cannot read breaks it, and passes it by: a
 * foreign event stops nothing. A change of any of them makes all their tables anew, for what they found stands in one.
 */
export const invariants: ReadModel = {
  name: 'laws',
  // Ordered, so that a process of an older release knows that a newer one made the tables.
  version: rules.reduce((sum, { version }) => sum + version, 0),
  content: rulesDigest(rules),
  tables: rules.flatMap(({ tables }) => tables),
  attempts: true,
  reads: (event) => {
    const named: RowKey[] = []
    for (const rule of rulesFor(event)) nameRows(rule, event, named)
    return named
  },
  apply: (event, rows) => {
    for (const rule of rulesFor(event)) {
      const problem = rows.attempt(() => rule.apply(event, rows))
      if (problem !== null) recordViolation(rows, event, rule.name, `the rule cannot read it: ${problem}`)
    }
  },
}

/** Nobody reads it on a request: large batches cost least, and a seal waits for it. */
export const invariantGroup: ReadModelGroup = {
  name: 'laws',
  models: [invariants],
  batchWindowMs: 500,
  maxBatch: 10_000,
}
