export { type CallbacksSeen, callbacksOf, type Inbox, type InboxEntry, inboxQueue } from './callbacks.ts'
export type { OwnGateway, ResellerGateways, StoredGateway } from './gateways.ts'
export {
  type GatewayCredentials,
  type Gateways,
  GatewayUnavailable,
  gatewayCredentials,
  type LiveGateway,
  realCredentials,
  UnreadableAnswer,
} from './payment-port.ts'
export { type Decimal, parseDecimalText, shareMicros } from './provider-http.ts'
export { ownGatewayIds, type PaymentConfig } from './settings.ts'
