export { bookStatementLine } from './book-statement-line.ts'
export { isReference, maxCents } from './input-forms.ts'
export { lowBalanceMails } from './low-balance-mails.ts'
export { refuseForPayment, shortfallText } from './payment-refusal.ts'
export { approvalNeeded, approvalRefusal, notProposedText, refusalOf } from './run-commands.ts'
export { transactionColumns } from './transaction-pages.ts'
export type { ReadBalance, WalletFigures } from './wallet-service.ts'
export {
  createWallets,
  creditByHand,
  type ManualMovementAnswer,
  movementIn,
  proposalPath,
  type Wallets,
} from './wallet-service.ts'
