import { isHttpsAddress } from '../../kernel/https-address.ts'
import { refuse } from '../../platform/http/errors.ts'

const maxLength = 2_000

/**
 * Where a payer lands afterwards: an https address, as it was written.
 * @throws invalid_url
 */
export const checkReturnUrl = (text: string): string => {
  if (text.length <= maxLength && /^[\x21-\x7e]+$/.test(text) && isHttpsAddress(text)) return text
  throw refuse(
    'invalid_url',
    `return_url must start with https:// and a host, and have at most ${maxLength} ASCII characters without a user name, a space or a backslash`,
  )
}
