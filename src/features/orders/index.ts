export { chargeOf, noQuote, orderOfForm, payPart, quoteForm, refusedPurchase } from './buy-form.ts'
export { orderTable } from './order-admin-pages.ts'
export { orderColumns } from './order-pages.ts'
export { fulfillmentMeta, OrderRecord, orderExample, orderRecord } from './order-record.ts'
export {
  type CompanionAppend,
  createAppendOrder,
  createPlaceOrder,
  isOrderKey,
  OrderRejected,
  orderOf,
  type PlacedOrder,
  type PlaceOrder,
  type Purchase,
} from './place-order.ts'
export {
  type Buyer,
  orRefusal,
  type Payer,
  type Prepared,
  type PriceSources,
  payerOf,
  prepareExtension,
  prepareOrder,
  type RentalsToExtend,
} from './prepare-order.ts'
export { readOrder, refundOrder, refundRequestOf } from './refund-order.ts'
export { chargeErrors, guardField, methodField, payPageErrors, quantityField } from './routes.ts'
