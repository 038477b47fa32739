import { isHttpsAddress } from '../../kernel/https-address.ts'

/** Characters that the name on a reseller's pay pages may have at most. */
export const maxMerchantName = 64

/** Whether pay pages can carry this name: printable characters without a space at the ends. */
export const isMerchantName = (text: string): boolean =>
  /^[^\p{C}]{1,64}$/u.test(text) && text.trim() === text

const maxAddress = 2_000

/** An https address that customers are sent to, as the URL standard writes it; null for anything else. */
export const shopAddressOf = (text: string): string | null =>
  text.length <= maxAddress && isHttpsAddress(text) ? new URL(text).href : null
