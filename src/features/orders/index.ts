export { type CompanionAppend, OrderRejected, type PlacedOrder } from './append-order.ts'
export { chargeOf, noQuote, payPart, purchaseOf, quoteForm, refusedPurchase } from './buy-form.ts'
export { createCompletion } from './complete-orders.ts'
export { orderTable } from './order-admin-pages.ts'
export { orderColumns } from './order-pages.ts'
export { fulfillmentMeta, OrderRecord, orderExample, orderRecord } from './order-record.ts'
export { type Payer, payerOf } from './payer.ts'
export {
  createOrderService,
  createPlaceOrder,
  type OrderService,
  type PlaceOrder,
  type Purchase,
} from './place-order.ts'
export {
  type Buyer,
  type Prepared,
  prepareExtension,
  prepareOrder,
  prepareTopUp,
  type RentalsToExtend,
} from './prepare-order.ts'
export { readOrder, refundOrder, refundRequestOf } from './refund-order.ts'
export { chargeErrors, guardField, methodField, payPageErrors, quantityField } from './routes.ts'
