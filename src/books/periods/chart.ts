import {
  fundingAccount,
  givenAccount,
  type Posting,
  serviceBook,
  serviceDebtAccount,
} from '../../money/ledger/postings.ts'

/**
 * Which accounts the books had when a month was closed: a closing without a number was made in the first chart, where a
 * reseller's debt to the service and what the service gave it stood on `equity:funding`. Closed months stay as closed.
 */
export const currentChart = 2

type Place = Pick<Posting, 'book' | 'account'>

const given = givenAccount('')

/** Whether the first chart did not have the account. */
export const isOfLaterChart = ({ book, account }: Place): boolean =>
  book !== serviceBook && (account === serviceDebtAccount || account.startsWith(given))

/** Whether the first chart had the account as another one, or with more on it. */
export const isMerged = (place: Place): boolean =>
  (place.book !== serviceBook && place.account === fundingAccount) || isOfLaterChart(place)

/** The one leg that the first chart had in place of an entry's merged ones; none where they come to nothing. */
export const mergedOf = (postings: readonly Posting[]): readonly Posting[] => {
  const legs = postings.filter(isMerged)
  const [first] = legs
  if (first === undefined) return []
  const debit = legs.reduce((sum, { debitMicros, creditMicros }) => sum + debitMicros - creditMicros, 0)
  if (debit === 0) return []
  const amounts = { debitMicros: Math.max(debit, 0), creditMicros: Math.max(-debit, 0) }
  return [{ book: first.book, account: fundingAccount, ...amounts }]
}
