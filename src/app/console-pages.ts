import { sealPages } from '../audit/seal-pages.ts'
import { verificationPages } from '../audit/verification-pages.ts'
import { keyPages } from '../features/accounts/key-pages.ts'
import { proposalPages } from '../features/approvals/approval-pages.ts'
import { operatorCataloguePages } from '../features/catalog/catalogue-import-pages.ts'
import { pricePages } from '../features/catalog/price-pages.ts'
import { homePages } from '../features/console/home-page.ts'
import {
  accountListPages,
  accountPages,
  blockAccountPages,
  creditWalletPages,
} from '../features/console/operator-account-pages.ts'
import { overviewPages } from '../features/console/overview-page.ts'
import { ownGatewayListPages, ownGatewayPages } from '../features/console/payment-gateway-pages.ts'
import { projectionPages } from '../features/console/projection-pages.ts'
import { searchPages } from '../features/console/search-page.ts'
import { statusPages } from '../features/console/status-page.ts'
import { queuePages, systemPages } from '../features/console/system-pages.ts'
import { depositPages, topUpPages } from '../features/deposits/deposit-pages.ts'
import { exitPages } from '../features/exits/exit-pages.ts'
import { exportPages } from '../features/exports/export-pages.ts'
import { balancePages } from '../features/finance/pages/balance-pages.ts'
import { bookAccountPages } from '../features/finance/pages/book-account-pages.ts'
import { closePeriodPages } from '../features/finance/pages/close-period-pages.ts'
import { moneyPages } from '../features/finance/pages/money-pages.ts'
import { periodPages } from '../features/finance/pages/period-pages.ts'
import { replayPages } from '../features/finance/pages/replay-pages.ts'
import { trailPages } from '../features/finance/trail-pages.ts'
import { freeProxyPages } from '../features/free-list/free-proxy-pages.ts'
import { ipLookupPages } from '../features/free-tools/ip-lookup-page.ts'
import { networkPages } from '../features/free-tools/network-pages.ts'
import { proxyCheckerPages } from '../features/free-tools/proxy-checker-page.ts'
import { linePages } from '../features/lines/line-pages.ts'
import { whitelistPages } from '../features/lines/whitelist-pages.ts'
import { operatorNoticePages } from '../features/notices/notice-admin-pages.ts'
import { noticePages } from '../features/notices/notice-pages.ts'
import { cataloguePages, productPages } from '../features/orders/catalogue-pages.ts'
import { orderAdminPages } from '../features/orders/order-admin-pages.ts'
import { orderPages } from '../features/orders/order-pages.ts'
import { onePlanPages, planListPages } from '../features/plans/plan-pages.ts'
import { planTopUpPages } from '../features/plans/plan-top-up-pages.ts'
import { extendPages } from '../features/proxies/extend-pages.ts'
import { addressListPages, addressPages, replaceAddressPages } from '../features/proxies/proxy-pages.ts'
import { resellerCustomerPages } from '../features/resellers/customer-pages.ts'
import { marginPages } from '../features/resellers/margin-pages.ts'
import {
  gatewayListPages,
  gatewayPages,
  gatewaySetupPages,
} from '../features/resellers/reseller-gateway-pages.ts'
import { shopPages, termsPages } from '../features/resellers/shop-pages.ts'
import { statementPages } from '../features/resellers/statement-pages.ts'
import { scrapeBatchPages } from '../features/scrapers/batch-pages.ts'
import { playgroundPages } from '../features/scrapers/playground-pages.ts'
import { scraperPages, scrapeUsagePages } from '../features/scrapers/scraper-pages.ts'
import { confirmPages } from '../features/sign-in/confirm-pages.ts'
import { passkeyPages } from '../features/sign-in/passkey-pages.ts'
import { sessionPages, timePages } from '../features/sign-in/session-pages.ts'
import { signInLinkPages, signInPages } from '../features/sign-in/sign-in-pages.ts'
import { staffPages } from '../features/sign-in/staff-pages.ts'
import { stockingPages, stockPages } from '../features/stock/stock-pages.ts'
import { subscriptionPages } from '../features/subscriptions/subscription-pages.ts'
import { transactionPages } from '../features/wallet/transaction-pages.ts'
import { webhookPages } from '../features/webhooks/webhook-pages.ts'
import type { ConsolePage } from '../platform/ui/page.ts'

/** Every page of the console, in the order of its navigation. A new file of pages gets a line. */
const all = [
  // An account.
  overviewPages,
  cataloguePages,
  productPages,
  orderPages,
  topUpPages,
  depositPages,
  transactionPages,
  keyPages,
  noticePages,
  planListPages,
  onePlanPages,
  linePages,
  whitelistPages,
  planTopUpPages,
  addressListPages,
  addressPages,
  replaceAddressPages,
  extendPages,
  subscriptionPages,
  scraperPages,
  scrapeUsagePages,
  scrapeBatchPages,
  playgroundPages,
  webhookPages,
  // Resellers.
  marginPages,
  resellerCustomerPages,
  statementPages,
  gatewayListPages,
  gatewayPages,
  gatewaySetupPages,
  shopPages,
  termsPages,
  staffPages,
  // Everybody, signed in or not; search engines may list them.
  homePages,
  pricePages,
  freeProxyPages,
  networkPages,
  proxyCheckerPages,
  ipLookupPages,
  statusPages,
  trailPages,
  // Finance. They change nothing but that they close months.
  moneyPages,
  balancePages,
  bookAccountPages,
  periodPages,
  closePeriodPages,
  exportPages,
  verificationPages,
  replayPages,
  sealPages,
  // Operators.
  searchPages,
  accountListPages,
  accountPages,
  blockAccountPages,
  creditWalletPages,
  orderAdminPages,
  proposalPages,
  operatorCataloguePages,
  stockPages,
  stockingPages,
  exitPages,
  ownGatewayListPages,
  ownGatewayPages,
  operatorNoticePages,
  queuePages,
  projectionPages,
  systemPages,
  // Whoever is signed in, or is about to be.
  sessionPages,
  passkeyPages,
  confirmPages,
  signInPages,
  signInLinkPages,
] as const

/** What all of them take together. */
export type PageServices = (typeof all)[number] extends (services: infer Services) => unknown
  ? Services
  : never

export const consolePages = (services: PageServices): readonly ConsolePage[] => [
  ...all.flatMap((pages: (services: PageServices) => readonly ConsolePage[]) => pages(services)),
  ...timePages,
]
