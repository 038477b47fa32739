import { refuse } from '../http/errors.ts'

const maxLength = 2_000

/**
 * Where a payer lands afterwards: an https address, as it was written.
 * @throws invalid_url
 */
export const checkReturnUrl = (text: string): string => {
  const url = text.length <= maxLength && URL.canParse(text) ? new URL(text) : null
  if (url?.protocol === 'https:' && url.username === '' && url.password === '' && /^[\x21-\x7e]+$/.test(text))
    return text
  throw refuse(
    'invalid_url',
    `return_url must be an https address of at most ${maxLength} characters without a user name`,
  )
}
