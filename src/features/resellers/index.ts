export { invoiceRefusal, providerForms } from './gateway-form.ts'
export type { LivePrices } from './live-prices.ts'
export { messageQueue } from './message-queue.ts'
export { salesSummary } from './sales-pages.ts'
