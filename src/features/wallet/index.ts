export {
  approvalNeeded,
  approvalRefusal,
  parseGatewayName,
  parseReference,
  parseSignedCents,
  refusalOf,
} from './wallet-commands.ts'
export {
  createWallets,
  isReference,
  type ManualMovementAnswer,
  maxCents,
  proposalPath,
  type Wallets,
} from './wallet-service.ts'
