import { personFacts } from '../../console/people/events.ts'
import { exitFacts } from '../../gateway/exits/events.ts'
import { accountFacts } from '../../market/accounts/events.ts'
import { catalogFacts } from '../../market/catalog/events.ts'
import { orderFacts } from '../../market/orders/events.ts'
import { planFacts } from '../../market/plans/events.ts'
import { termsFacts } from '../../market/resellers/events.ts'
import { addressFacts, stockFacts } from '../../market/stock/events.ts'
import { subscriptionFacts } from '../../market/subscriptions/events.ts'
import { depositFacts } from '../../money/deposits/events.ts'
import { approvalFacts } from '../../money/ledger/approval-events.ts'
import { ledgerFacts } from '../../money/ledger/events.ts'
import { manualFacts } from '../../money/ledger/manual-events.ts'
import { statementFacts } from '../../money/ledger/statement-events.ts'
import { noticeFacts } from '../../outbound/notices/events.ts'
import { deliveryFacts, endpointFacts } from '../../outbound/webhooks/events.ts'
import type { Fact } from '../../platform/eventstore/fact.ts'
import { scrapeBatchFacts } from '../../scrapers/batches/events.ts'
import { scrapeFacts } from '../../scrapers/calls/events.ts'
import { scraperPriceFacts } from '../../scrapers/catalog/events.ts'
import { financeTokenFacts } from '../finance/token-events.ts'
import { periodFacts } from '../periods/events.ts'
import { breachFacts, sealFacts, signingFacts } from './events.ts'

/** Every kind of event that a log of ours holds, money first. */
export const facts: readonly Fact[] = [
  ...ledgerFacts,
  ...statementFacts,
  ...depositFacts,
  ...manualFacts,
  ...approvalFacts,
  ...orderFacts,
  ...subscriptionFacts,
  ...planFacts,
  ...stockFacts,
  ...addressFacts,
  ...scrapeFacts,
  ...scrapeBatchFacts,
  ...scraperPriceFacts,
  ...accountFacts,
  ...termsFacts,
  ...catalogFacts,
  ...exitFacts,
  ...endpointFacts,
  ...deliveryFacts,
  ...noticeFacts,
  ...personFacts,
  ...financeTokenFacts,
  ...periodFacts,
  ...sealFacts,
  ...signingFacts,
  ...breachFacts,
]

const byType: ReadonlyMap<string, Fact> = new Map(facts.map((fact) => [fact.type, fact]))

/** How a kind of event is declared; null: it is none of ours. */
export const factOf = (type: string): Fact | null => byType.get(type) ?? null

/** What is wrong with an event's data by its declaration; null when nothing is. */
export const dataProblem = (type: string, data: unknown): string | null => {
  const fact = byType.get(type)
  if (fact === undefined) return `there is no event ${type} in the dictionary (docs/events.md)`
  const { error } = fact.data.safeParse(data)
  if (error === undefined) return null
  const [issue] = error.issues
  const at = issue?.path.map(String).join('.')
  return `${at ? `its ${at} is not as ${type} has it` : `its fields are not those of ${type}`}: ${issue?.message ?? 'it is not valid'}`
}
