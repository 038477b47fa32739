import { sha256 } from '../../kernel/digest.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import {
  createDispatch,
  type ReadModel,
  type ReadModelGroup,
  type RowKey,
} from '../../platform/projections/read-model.ts'
import { movementRules, periodRules, statementRules } from './accounting-invariants.ts'
import { approvalRules, decidedRules } from './approval-invariants.ts'
import { authorityRules, capRules } from './authority-invariants.ts'
import { trafficBudgetRules } from './budget-invariants.ts'
import { commitmentRules, deliveryRules } from './delivery-invariants.ts'
import { fulfilmentRules, planRules } from './fulfilment-invariants.ts'
import { recordViolation, violationsTable } from './invariant.ts'
import { orderRules } from './order-invariants.ts'
import { catalogRules, priceRules, sellerRules, termsRules } from './price-invariants.ts'
import { depositRules, manualRules, reasonRules, topupRules, unmatchedRules } from './reason-invariants.ts'
import { batchRules, scrapePriceRules, scrapeRules } from './scrape-invariants.ts'
import { stockRules } from './stock-invariants.ts'
import { subscriptionRules } from './subscription-invariants.ts'
import { walletRules } from './wallet-invariants.ts'

/** The table of violations, which all rules write to. */
const violationModel: ReadModel = {
  name: 'audit-found',
  version: 3,
  tables: [violationsTable],
  takes: { types: new Set() },
  reads: () => [],
  apply: () => undefined,
}

/** All invariants between the events of a log. A new invariant is one more model here. */
export const rules: readonly ReadModel[] = [
  violationModel,
  walletRules,
  movementRules,
  reasonRules,
  depositRules,
  manualRules,
  unmatchedRules,
  topupRules,
  statementRules,
  approvalRules,
  orderRules,
  // Before the invariants of stock and plans: it reads rentals and plans in their previous state.
  fulfilmentRules,
  stockRules,
  planRules,
  trafficBudgetRules,
  subscriptionRules,
  capRules,
  periodRules,
  scrapeRules,
  scrapePriceRules,
  batchRules,
  deliveryRules,
  commitmentRules,
  catalogRules,
  termsRules,
  sellerRules,
  priceRules,
  decidedRules,
  authorityRules,
]

/** A digest of the rules and their versions. A sum of the versions would not show an increase together with a decrease. */
export const rulesDigest = (rules: readonly Pick<ReadModel, 'name' | 'version'>[]): string =>
  sha256(JSON.stringify(rules.map(({ name, version }) => [name, version]))).toString('hex')

const rulesFor = createDispatch(rules)

/**
 * Adds the rows that a rule needs for an event. If the rule cannot read the event, its rows are fetched one by one when
 * it is applied.
 */
const addRowKeys = (rule: ReadModel, event: RecordedEvent, rowKeys: RowKey[]): void => {
  try {
    for (const row of rule.reads(event)) rowKeys.push(row)
  } catch {
    // The rule fails again when it is applied. That is reported as a violation.
  }
}

/**
 * All invariants as one read model, which the running server folds. An event that a rule cannot read is a violation,
 * and the rule skips it: a foreign event stops nothing. A change of one rule rebuilds all tables, because all rules
 * share the table of violations.
 */
export const invariants: ReadModel = {
  name: 'laws',
  // Rises, so that a process of an older release detects that a newer release made the tables.
  version: rules.reduce((sum, { version }) => sum + version, 0),
  content: rulesDigest(rules),
  tables: rules.flatMap(({ tables }) => tables),
  formerTables: ['audit_margin_orders'],
  attempts: true,
  reads: (event) => {
    const rowKeys: RowKey[] = []
    for (const rule of rulesFor(event)) addRowKeys(rule, event, rowKeys)
    return rowKeys
  },
  apply: (event, rows) => {
    for (const rule of rulesFor(event)) {
      const problem = rows.attempt(() => rule.apply(event, rows))
      if (problem !== null) recordViolation(rows, event, rule.name, `the rule cannot read it: ${problem}`)
    }
  },
}

/** No request reads it. Large batches cost least, and a seal waits for it. */
export const invariantGroup: ReadModelGroup = {
  name: 'laws',
  models: [invariants],
  batchWindowMs: 500,
  maxBatch: 10_000,
  audits: true,
}
