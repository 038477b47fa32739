export { isReference, maxCents } from './input-forms.ts'
export { approvalNeeded, approvalRefusal, refusalOf } from './run-commands.ts'
export type { ReadBalance } from './wallet-service.ts'
export { createWallets, type ManualMovementAnswer, proposalPath, type Wallets } from './wallet-service.ts'
