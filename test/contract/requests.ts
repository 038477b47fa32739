import { randomUUID } from 'node:crypto'
import type { CallOptions } from '../support/http.ts'

export type Request = { readonly method: string; readonly path: string } & CallOptions

/** A customer's resources, for paths and bodies. */
export type Holdings = {
  readonly orderId: string
  /** It waits for a payment, or was canceled while it did. */
  readonly waitingOrderId: string
  readonly planId: string
  readonly proxyId: string
  /** On the whitelist of the plan. */
  readonly entryId: string
  /** A traffic budget of the plan. */
  readonly budgetId: string
  readonly depositId: string
  readonly webhookId: string
  readonly subscriptionId: string
  readonly deliveryId: string
  /** A reseller's key, and a customer of that reseller. */
  readonly resellerKey: string
  readonly customerId: string
  /** A movement of that customer's credit. */
  readonly movementId: string
  readonly financeToken: string
  /** A key that may call scrapers. */
  readonly scraperKey: string
  /** Of that key's account, and finished: its first call has a result. */
  readonly batchId: string
}

/** Operations of keys that may call scrapers. */
export const ofScrapers: ReadonlySet<string> = new Set([
  'scrape',
  'scrapeBatch',
  'listScrapeBatches',
  'cancelScrapeBatch',
  'getScrapeBatch',
  'getScrapeBatchResult',
  'listScrapeUsage',
])

const v1 = '/api/v1'
const finance = '/finance/v1'

/** The discard port of this machine. */
export const closedUrl = 'http://127.0.0.1:9/hook'

/** For every operation a request that succeeds for the customer with these holdings. */
export const goodRequests = (held: Holdings): Readonly<Record<string, Request>> => ({
  getMe: { method: 'GET', path: `${v1}/me` },
  listAnnouncements: { method: 'GET', path: `${v1}/announcements` },
  getWallet: { method: 'GET', path: `${v1}/wallet` },
  getLowBalance: { method: 'GET', path: `${v1}/wallet/low-balance` },
  setLowBalance: { method: 'PUT', path: `${v1}/wallet/low-balance`, json: { thresholdCents: 5_000 } },
  getAutoTopup: { method: 'GET', path: `${v1}/wallet/auto-topup` },
  setAutoTopup: {
    method: 'PUT',
    path: `${v1}/wallet/auto-topup`,
    json: { thresholdCents: 2_000, amountCents: 5_000, monthlyMaxCents: 50_000 },
  },
  removeAutoTopup: { method: 'DELETE', path: `${v1}/wallet/auto-topup` },
  createCardPage: { method: 'POST', path: `${v1}/wallet/auto-topup/card` },
  listTransactions: { method: 'GET', path: `${v1}/wallet/transactions` },
  listProducts: { method: 'GET', path: `${v1}/products` },
  getProduct: { method: 'GET', path: `${v1}/products/isp-static` },
  quotePrice: { method: 'GET', path: `${v1}/products/isp-static/price?quantity=1` },
  getPriceList: { method: 'GET', path: `${v1}/products/isp-static/price-list?country=USA` },
  getOptions: { method: 'GET', path: `${v1}/products/isp-static/options` },
  createOrder: {
    method: 'POST',
    path: `${v1}/orders`,
    json: { product_id: 'residential-premium', quantity: 1 },
  },
  listOrders: { method: 'GET', path: `${v1}/orders` },
  getOrder: { method: 'GET', path: `${v1}/orders/${held.orderId}` },
  cancelOrder: { method: 'POST', path: `${v1}/orders/${held.waitingOrderId}/cancel` },
  createDeposit: { method: 'POST', path: `${v1}/deposits`, json: { amount_cents: 2500 } },
  listDeposits: { method: 'GET', path: `${v1}/deposits` },
  getDeposit: { method: 'GET', path: `${v1}/deposits/${held.depositId}` },
  listResellerCustomers: {
    method: 'GET',
    path: `${v1}/reseller/customers`,
    key: held.resellerKey,
  },
  getResellerCustomer: {
    method: 'GET',
    path: `${v1}/reseller/customers/${held.customerId}`,
    key: held.resellerKey,
  },
  updateResellerCustomer: {
    method: 'PATCH',
    path: `${v1}/reseller/customers/${held.customerId}`,
    json: { label: 'Alice' },
    key: held.resellerKey,
  },
  getResellerTerms: { method: 'GET', path: `${v1}/reseller/terms`, key: held.resellerKey },
  updateResellerTerms: {
    method: 'PATCH',
    path: `${v1}/reseller/terms`,
    json: { markup: null },
    key: held.resellerKey,
  },
  setResellerPrice: {
    method: 'PUT',
    path: `${v1}/reseller/prices`,
    json: { product_id: 'residential-premium', unit_price: null },
    key: held.resellerKey,
  },
  moveCustomerCredit: {
    method: 'POST',
    path: `${v1}/reseller/movements`,
    json: { amount_cents: 1, reference: randomUUID() },
    headers: { 'X-Reseller-Customer-Id': 'c-mover' },
    key: held.resellerKey,
  },
  getCustomerMovement: {
    method: 'GET',
    path: `${v1}/reseller/movements/${held.movementId}`,
    key: held.resellerKey,
  },
  listMargins: { method: 'GET', path: `${v1}/reseller/margins`, key: held.resellerKey },
  getStatement: { method: 'GET', path: `${v1}/reseller/statement`, key: held.resellerKey },
  listPlans: { method: 'GET', path: `${v1}/plans` },
  getPlan: { method: 'GET', path: `${v1}/plans/${held.planId}` },
  updatePlan: { method: 'PATCH', path: `${v1}/plans/${held.planId}`, json: { label: 'acme' } },
  topUpPlan: { method: 'POST', path: `${v1}/plans/${held.planId}/topup`, json: { quantity: 1 } },
  getPlanUsage: { method: 'GET', path: `${v1}/plans/${held.planId}/usage` },
  updatePlanUsage: {
    method: 'PATCH',
    path: `${v1}/plans/${held.planId}/usage`,
    json: { countsHosts: true },
  },
  listPlanRequests: { method: 'GET', path: `${v1}/plans/${held.planId}/requests` },
  getPlanTraffic: { method: 'GET', path: `${v1}/plans/${held.planId}/traffic?group_by=host` },
  generateLines: {
    method: 'POST',
    path: `${v1}/plans/${held.planId}/generate`,
    json: { country: 'us', stickyMinutes: 30 },
  },
  rotatePlanPassword: { method: 'POST', path: `${v1}/plans/${held.planId}/rotate-password` },
  releaseSessions: {
    method: 'POST',
    path: `${v1}/plans/${held.planId}/sessions/release`,
    json: { sessions: ['k3v9q2xw'] },
  },
  listWhitelist: { method: 'GET', path: `${v1}/plans/${held.planId}/whitelist` },
  addToWhitelist: {
    method: 'POST',
    path: `${v1}/plans/${held.planId}/whitelist`,
    json: { entries: [{ cidr: '9.9.9.9', label: 'office' }] },
  },
  removeFromWhitelist: {
    method: 'DELETE',
    path: `${v1}/plans/${held.planId}/whitelist/${held.entryId}`,
  },
  setTrafficBudget: {
    method: 'PUT',
    path: `${v1}/traffic-budgets`,
    json: { planId: held.planId, period: 'month', timeZone: 'Europe/Berlin', limitBytes: 5_000_000_000 },
  },
  listTrafficBudgets: { method: 'GET', path: `${v1}/traffic-budgets` },
  getTrafficBudget: { method: 'GET', path: `${v1}/traffic-budgets/${held.budgetId}` },
  resetTrafficBudget: { method: 'POST', path: `${v1}/traffic-budgets/${held.budgetId}/reset` },
  removeTrafficBudget: { method: 'DELETE', path: `${v1}/traffic-budgets/${held.budgetId}` },
  listGeoCountries: { method: 'GET', path: `${v1}/geo/countries` },
  listGeoStates: { method: 'GET', path: `${v1}/geo/states?country=us` },
  listGeoCities: { method: 'GET', path: `${v1}/geo/cities?country=us` },
  listGeoIsps: { method: 'GET', path: `${v1}/geo/isps?country=us` },
  listGeoAsns: { method: 'GET', path: `${v1}/geo/asns?country=us` },
  listProxies: { method: 'GET', path: `${v1}/proxies` },
  getProxy: { method: 'GET', path: `${v1}/proxies/${held.proxyId}` },
  replaceProxy: {
    method: 'POST',
    path: `${v1}/proxies/${held.proxyId}/replace`,
    json: { reason: 'low_speed' },
    headers: { 'Idempotency-Key': 'another-address' },
  },
  checkProxy: { method: 'GET', path: `${v1}/proxies/${held.proxyId}/check` },
  updateProxy: { method: 'PATCH', path: `${v1}/proxies/${held.proxyId}`, json: { label: 'acme' } },
  extendProxies: {
    method: 'POST',
    path: `${v1}/proxies/extend`,
    json: { proxy_ids: [held.proxyId], period_days: 30 },
  },
  scrape: {
    method: 'POST',
    path: '/v1/scrape/reddit/subreddit',
    json: { subreddit: 'AskReddit' },
    key: held.scraperKey,
  },
  scrapeBatch: {
    method: 'POST',
    path: '/v1/scrape/batch',
    json: { platform: 'reddit', operation: 'subreddit', inputs: [{ subreddit: 'AskReddit' }] },
    key: held.scraperKey,
  },
  listScrapeBatches: { method: 'GET', path: '/v1/scrape/batch', key: held.scraperKey },
  cancelScrapeBatch: { method: 'DELETE', path: `/v1/scrape/batch/${held.batchId}`, key: held.scraperKey },
  getScrapeBatch: { method: 'GET', path: `/v1/scrape/batch/${held.batchId}`, key: held.scraperKey },
  getScrapeBatchResult: {
    method: 'GET',
    path: `/v1/scrape/batch/${held.batchId}/results/1`,
    key: held.scraperKey,
  },
  listScrapeUsage: { method: 'GET', path: `${v1}/scrapes`, key: held.scraperKey },
  listScrapeEarnings: { method: 'GET', path: `${finance}/scrapes`, key: held.financeToken },
  getTrialBalance: { method: 'GET', path: `${finance}/trial-balance`, key: held.financeToken },
  getAccountBalance: { method: 'GET', path: `${finance}/accounts/revenue`, key: held.financeToken },
  getAccountStatement: {
    method: 'GET',
    path: `${finance}/accounts/assets:gateway:manual/statement`,
    key: held.financeToken,
  },
  listOrderEntries: {
    method: 'GET',
    path: `${finance}/orders/${held.orderId}/entries`,
    key: held.financeToken,
  },
  listManualEntries: { method: 'GET', path: `${finance}/manual-entries`, key: held.financeToken },
  getDeferredRevenue: { method: 'GET', path: `${finance}/deferred-revenue`, key: held.financeToken },
  listReversals: { method: 'GET', path: `${finance}/reversals`, key: held.financeToken },
  listSeals: { method: 'GET', path: `${finance}/seals`, key: held.financeToken },
  listVerifications: { method: 'GET', path: `${finance}/verifications`, key: held.financeToken },
  createSubscription: {
    method: 'POST',
    path: `${v1}/subscriptions`,
    json: { product_id: 'residential-premium', quantity: 1, interval: 'month' },
  },
  listSubscriptions: { method: 'GET', path: `${v1}/subscriptions` },
  getSubscription: { method: 'GET', path: `${v1}/subscriptions/${held.subscriptionId}` },
  cancelSubscription: { method: 'DELETE', path: `${v1}/subscriptions/${held.subscriptionId}` },
  createWebhook: { method: 'POST', path: `${v1}/webhooks`, json: { url: closedUrl } },
  listWebhooks: { method: 'GET', path: `${v1}/webhooks` },
  getWebhook: { method: 'GET', path: `${v1}/webhooks/${held.webhookId}` },
  updateWebhook: { method: 'PATCH', path: `${v1}/webhooks/${held.webhookId}`, json: { events: ['ping'] } },
  deleteWebhook: { method: 'DELETE', path: `${v1}/webhooks/${held.webhookId}` },
  testWebhook: { method: 'POST', path: `${v1}/webhooks/${held.webhookId}/test` },
  rotateWebhookSecret: { method: 'POST', path: `${v1}/webhooks/${held.webhookId}/rotate-secret` },
  listDeliveries: { method: 'GET', path: `${v1}/webhooks/${held.webhookId}/deliveries` },
  redeliverWebhooks: { method: 'POST', path: `${v1}/webhooks/${held.webhookId}/redeliver?since=2026-11-21` },
  redeliverWebhook: {
    method: 'POST',
    path: `${v1}/webhooks/${held.webhookId}/deliveries/${held.deliveryId}/redeliver`,
  },
})
