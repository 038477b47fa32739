import type { Fact } from '../kernel/event.ts'
import { accountFacts } from './accounts/events.ts'
import { catalogFacts } from './catalog/events.ts'
import { depositFacts } from './deposits/events.ts'
import { exitFacts } from './exits/events.ts'
import { financeTokenFacts } from './finance/tokens.ts'
import { approvalFacts } from './ledger/approvals.ts'
import { ledgerFacts } from './ledger/events.ts'
import { manualFacts } from './ledger/manual-movements.ts'
import { statementFacts } from './ledger/statement-lines.ts'
import { noticeFacts } from './notices/events.ts'
import { orderFacts } from './orders/events.ts'
import { periodFacts } from './periods/events.ts'
import { planFacts } from './plans/events.ts'
import { termsFacts } from './resellers/events.ts'
import { scrapeBatchFacts } from './scrapers/batches.ts'
import { scrapeFacts } from './scrapers/calls.ts'
import { scraperPriceFacts } from './scrapers/price-events.ts'
import { breachFacts, sealFacts, signingFacts } from './seals/events.ts'
import { personFacts } from './staff/events.ts'
import { addressFacts, stockFacts } from './stock/events.ts'
import { subscriptionFacts } from './subscriptions/events.ts'
import { deliveryFacts, endpointFacts } from './webhooks/events.ts'

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
