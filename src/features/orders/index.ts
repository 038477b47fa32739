export { type CompanionAppend, OrderRejected, type PlacedOrder } from './append-order.ts'
export {
  chargeOf,
  noQuote,
  orderOfForm,
  payPart,
  quotedView,
  quoteForm,
  quoteOrProblems,
  refusedPurchase,
} from './buy-form.ts'
export { operatorOrderColumns } from './order-admin-pages.ts'
export { orderColumns } from './order-pages.ts'
export { fulfillmentMeta, OrderRecord, orderExample, orderRecord } from './order-record.ts'
export { type Payer, payerOf } from './payer.ts'
export { createPlaceOrder, isOrderKey, orderOf, type PlaceOrder, type Purchase } from './place-order.ts'
export {
  type Buyer,
  orRefusal,
  type Prepared,
  type PriceSources,
  prepareExtension,
  prepareOrder,
  type RentalsToExtend,
} from './prepare-order.ts'
export { readOrder, refundOrder, refundRequestOf } from './refund-order.ts'
export { chargeErrors, guardField, methodField, payPageErrors, quantityField } from './routes.ts'
