export { type CallbacksSeen, callbacksOf, type Inbox, type InboxEntry, inboxQueue } from './callbacks.ts'
export type { OwnGateway, ResellerGateways, StoredGateway } from './gateways.ts'
export {
  type FoundChange,
  type GatewayCredentials,
  type Gateways,
  GatewayUnavailable,
  gatewayCredentials,
  type LiveGateway,
  realCredentials,
  UnreadableAnswer,
} from './payment-port.ts'
export { type Decimal, parseDecimalText, shareMicros } from './provider-http.ts'
export { gatewayIdsOf, type PaymentConfig } from './settings.ts'
