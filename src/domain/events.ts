import type { EventDefinition, EventOf } from '../kernel/event.ts'
import { accountEventDefinitions } from './accounts/events.ts'
import { catalogEventDefinitions } from './catalog/events.ts'
import { depositEventDefinitions } from './deposits/events.ts'
import { topupEventDefinitions } from './deposits/topups.ts'
import { unmatchedEventDefinitions } from './deposits/unmatched-movements.ts'
import { exitEventDefinitions } from './exits/events.ts'
import { financeTokenEventDefinitions } from './finance/tokens.ts'
import { approvalEventDefinitions } from './ledger/approvals.ts'
import { ledgerEventDefinitions } from './ledger/events.ts'
import { manualEventDefinitions } from './ledger/manual-movements.ts'
import { statementEventDefinitions } from './ledger/statement-lines.ts'
import { noticeEventDefinitions } from './notices/events.ts'
import { orderEventDefinitions } from './orders/events.ts'
import { periodEventDefinitions } from './periods/events.ts'
import { planEventDefinitions } from './plans/events.ts'
import { trafficBudgetEventDefinitions } from './plans/traffic-budgets.ts'
import { whitelistEventDefinitions } from './plans/whitelist.ts'
import { termsEventDefinitions } from './resellers/events.ts'
import { scrapeBatchEventDefinitions } from './scrapers/batches.ts'
import { scrapeEventDefinitions } from './scrapers/calls.ts'
import { scraperPriceEventDefinitions } from './scrapers/price-events.ts'
import { adoptionEventDefinitions } from './seals/adoption.ts'
import { sealEventDefinitions, signingEventDefinitions, violationEventDefinitions } from './seals/events.ts'
import { personEventDefinitions } from './staff/events.ts'
import { addressEventDefinitions, stockEventDefinitions } from './stock/events.ts'
import { subscriptionEventDefinitions } from './subscriptions/events.ts'
import { deliveryEventDefinitions, endpointEventDefinitions } from './webhooks/events.ts'

const definitions = [
  ...ledgerEventDefinitions,
  ...statementEventDefinitions,
  ...depositEventDefinitions,
  ...topupEventDefinitions,
  ...unmatchedEventDefinitions,
  ...manualEventDefinitions,
  ...approvalEventDefinitions,
  ...orderEventDefinitions,
  ...subscriptionEventDefinitions,
  ...planEventDefinitions,
  ...whitelistEventDefinitions,
  ...trafficBudgetEventDefinitions,
  ...stockEventDefinitions,
  ...addressEventDefinitions,
  ...scrapeEventDefinitions,
  ...scrapeBatchEventDefinitions,
  ...scraperPriceEventDefinitions,
  ...accountEventDefinitions,
  ...termsEventDefinitions,
  ...catalogEventDefinitions,
  ...exitEventDefinitions,
  ...endpointEventDefinitions,
  ...deliveryEventDefinitions,
  ...noticeEventDefinitions,
  ...personEventDefinitions,
  ...financeTokenEventDefinitions,
  ...periodEventDefinitions,
  ...adoptionEventDefinitions,
  ...sealEventDefinitions,
  ...signingEventDefinitions,
  ...violationEventDefinitions,
]

export type KnownEvent = EventOf<(typeof definitions)[number]>

/** Every event type of the log, money first. */
export const eventDefinitions: readonly EventDefinition[] = definitions

const byType: ReadonlyMap<string, EventDefinition> = new Map(
  eventDefinitions.map((fact) => [fact.type, fact]),
)

/** The definition of an event type; null if there is none. */
export const eventDefinitionOf = (type: string): EventDefinition | null => byType.get(type) ?? null

/** What is wrong with an event's data according to its definition; null if nothing is. */
export const dataProblem = (type: string, data: unknown): string | null => {
  const fact = byType.get(type)
  if (fact === undefined) return `there is no event ${type} in the dictionary (farebox ledger events)`
  const { error } = fact.data.safeParse(data)
  if (error === undefined) return null
  const [issue] = error.issues
  const at = issue?.path.map(String).join('.')
  return `${at ? `its ${at} is not as ${type} has it` : `its fields are not those of ${type}`}: ${issue?.message ?? 'it is not valid'}`
}
