import type pg from 'pg'
import { refuse } from '../http/errors.ts'
import { findAccount, noSuchBook } from './find-account.ts'
import { hasBook } from './journal.ts'
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

const unknownBook = (book: string) => refuse('invalid_parameter', noSuchBook(book))

/** @throws invalid_parameter for a book that is neither the service's nor a reseller's */
export const checkBook = async (pool: pg.Pool, book: string | undefined): Promise<void> => {
  if (book !== undefined && !(await hasBook(pool, book))) throw unknownBook(book)
}

/**
 * Where an account stands (`findAccount`).
 * @throws not_found; invalid_parameter for an unknown book and where the books of several resellers have the account
 */
export const namedAccount = async (
  pool: pg.Pool,
  given: string,
  { book = null, below }: { readonly book: string | undefined | null; readonly below: boolean },
): Promise<{ readonly book: string; readonly account: string }> => {
  const found = await findAccount(pool, given, { book, below })
  switch (found.outcome) {
    case 'found':
      return { book: found.book, account: found.account }
    case 'unknown_book':
      throw unknownBook(found.book)
    case 'unknown_account': {
      const where = found.book === null ? 'no book has an' : `the book ${found.book} has no`
      throw refuse('not_found', `${where} account ${found.account}; the trial balance lists them all`)
    }
    case 'parent':
      throw refuse(
        'not_found',
        `${found.account} stands for those below it and has no lines of its own: its balance lists them, name one`,
      )
    case 'several_books':
      throw refuse(
        'invalid_parameter',
        `several books have an account ${found.account}: name one as book, e.g. ${found.books.join(', ')}`,
      )
    default:
      return found satisfies never
  }
}
