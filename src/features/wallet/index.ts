export {
  approvalNeeded,
  approvalRefusal,
  parseGatewayName,
  parseReference,
  parseSignedCents,
  refusalOf,
} from './commands.ts'
export type { ReadBalance } from './read-balance.ts'
export {
  createWallets,
  isReference,
  type ManualMovementAnswer,
  maxCents,
  proposalPath,
  type Wallets,
} from './wallet-service.ts'
