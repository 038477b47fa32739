export { depositRecord, depositState, railName } from './deposit-record.ts'
export type { Deposits } from './deposit-service.ts'
export { readDepositUrls } from './deposit-urls.ts'
export { readDeposit } from './settle-deposit.ts'
