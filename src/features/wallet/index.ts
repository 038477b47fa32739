export { isReference, maxCents } from './input-forms.ts'
export type { ReadBalance } from './read-balance.ts'
export { approvalNeeded, approvalRefusal, refusalOf } from './run-commands.ts'
export { createWallets, type ManualMovementAnswer, proposalPath, type Wallets } from './wallet-service.ts'
