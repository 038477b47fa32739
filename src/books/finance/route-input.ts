import { refuse } from '../../platform/http/errors.ts'
import { accountsBy } from './find-account.ts'
import { PastTheEnd } from './moment.ts'
import { type Asked, endsBeforeItBegins } from './reader.ts'

type AskedQuery = { as_of?: Asked['asOf']; from?: Asked['from']; to?: Asked['to'] }

/** @throws invalid_parameter */
export const askedOf = ({ as_of: asOf, from, to }: AskedQuery): Asked => {
  if (asOf !== undefined && (from !== undefined || to !== undefined))
    throw refuse('invalid_parameter', 'give as_of, or from and to, not both')
  if (endsBeforeItBegins({ from, to })) throw refuse('invalid_parameter', 'from must not be after to')
  return { asOf, from, to }
}

/** What a moment past the end is over HTTP; any other error is thrown as it is. */
export const notPastTheEnd = (error: unknown): never => {
  throw error instanceof PastTheEnd ? refuse('invalid_parameter', error.message) : error
}

/** Books and accounts as requests name them. They throw not_found, and invalid_parameter for what `book` says. */
export const names = accountsBy({
  list: 'the trial balance',
  below: () => 'its balance',
  naming: 'as book',
  refusal: (outcome, message) =>
    refuse(
      outcome === 'unknown_account' || outcome === 'parent' ? 'not_found' : 'invalid_parameter',
      message,
    ),
})
