import type { AccountRow, KeyRow } from './accounts.ts'
import type { BalanceRow, TransactionRow } from './balances.ts'
import type { CatalogRow } from './catalog.ts'
import type { CustomerRow } from './customers.ts'
import type { DepositCountRow, DepositRow } from './deposits.ts'
import type { ExitRow } from './exits.ts'
import type { GatewayChangeRow } from './gateway-changes.ts'
import type {
  JournalAccountRow,
  JournalClockRow,
  JournalEntryRow,
  JournalPostingRow,
  JournalResellerRow,
  JournalSecondRow,
} from './journal.ts'
import type { LowTrafficRow } from './low-traffic.ts'
import type { MarginLineRow, MarginSumRow } from './margins.ts'
import type { NoticeRow } from './notices.ts'
import type { OpenMovementRow } from './open-movements.ts'
import type { OpenOrderRow } from './open-orders.ts'
import type { OpenScrapeRow } from './open-scrapes.ts'
import type { OrderOutcomeRow, OrderPaymentRow } from './order-payments.ts'
import type { OrderCountRow, OrderRow } from './orders.ts'
import type { PlanRow } from './plans.ts'
import type { ProposalRow } from './proposals.ts'
import type { ProxyRow, ReplacementRow } from './proxies.ts'
import type { ResellerTermsRow } from './reseller-terms.ts'
import type { RestingAddressRow, StockLevelRow } from './stock.ts'
import type { OpenPeriodRow, SubscriptionRow } from './subscriptions.ts'
import type {
  WebhookAccountRow,
  WebhookAnnouncementRow,
  WebhookDueRow,
  WebhookStaleRow,
  WebhookSubscriptionRow,
} from './webhook-causes.ts'
import type { WebhookEndpointRow } from './webhooks.ts'

/** The row types of the read tables for queries. `src/platform/postgres/pool.ts` parses numbers and ISO times. */
export type ReadDatabase = {
  'read.accounts': AccountRow
  'read.keys': KeyRow
  'read.balances': BalanceRow
  'read.transactions': TransactionRow
  'read.customers': CustomerRow
  'read.orders': OrderRow
  'read.order_payments': OrderPaymentRow
  'read.order_outcomes': OrderOutcomeRow
  'read.order_counts': OrderCountRow
  'read.open_orders': OpenOrderRow
  'read.open_movements': OpenMovementRow
  'read.open_scrapes': OpenScrapeRow
  'read.plans': PlanRow
  'read.proposals': ProposalRow
  'read.proxies': ProxyRow
  'read.replacements': ReplacementRow
  'read.resting_addresses': RestingAddressRow
  'read.stock_levels': StockLevelRow
  'read.catalog': CatalogRow
  'read.deposits': DepositRow
  'read.deposit_counts': DepositCountRow
  'read.gateway_changes': GatewayChangeRow
  'read.webhook_endpoints': WebhookEndpointRow
  'read.webhook_accounts': WebhookAccountRow
  'read.webhook_subscriptions': WebhookSubscriptionRow
  'read.webhook_low_plans': LowTrafficRow
  'read.webhooks_due': WebhookDueRow
  'read.webhooks_stale': WebhookStaleRow
  'read.webhook_announcements': WebhookAnnouncementRow
  'read.journal_entries': JournalEntryRow
  'read.journal_accounts': JournalAccountRow
  'read.journal_postings': JournalPostingRow
  'read.journal_seconds': JournalSecondRow
  'read.journal_clock': JournalClockRow
  'read.journal_resellers': JournalResellerRow
  'read.margin_lines': MarginLineRow
  'read.margin_sums': MarginSumRow
  'read.reseller_terms': ResellerTermsRow
  'read.notices': NoticeRow
  'read.low_traffic': LowTrafficRow
  'read.subscriptions': SubscriptionRow
  'read.open_periods': OpenPeriodRow
  'read.exits': ExitRow
}
