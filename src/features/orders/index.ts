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
export { orderColumns, ordersWithCustomers, productSearch } from './order-pages.ts'
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
export {
  chargeErrors,
  fulfillmentMeta,
  guardField,
  metaField,
  methodField,
  OrderRecord,
  orderExample,
  orderRecord,
  payPageErrors,
  quantityField,
} from './routes.ts'
