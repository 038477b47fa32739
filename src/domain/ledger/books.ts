import type { AccountId } from '../../kernel/ids.ts'

export const serviceBook = 'service'
export const resellerBook = (reseller: AccountId): string => `reseller:${reseller}`
