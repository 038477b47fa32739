import type { RawBuilder } from 'kysely'
import { serviceBook } from '../../domain/ledger/books.ts'
import { customerAccount, gatewayAccount, walletAccount } from '../../domain/ledger/postings.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import { bookForms } from './input-forms.ts'

/** Whether a book is the service's or a reseller's. A reseller's book may be empty. */
export const hasBook = async (db: Db, book: string): Promise<boolean> => {
  if (book === serviceBook) return true
  const reseller = db.selectFrom('read.journal_resellers').where(sql`'reseller:' || account_id`, '=', book)
  return (await reseller.select('accountId').executeTakeFirst()) !== undefined
}

/** The books with an account of this name, or with one below it; at most ten, the service's first. */
export const booksOf = async (
  db: Db,
  account: string,
  { below, book }: { readonly below: boolean; readonly book: string | null },
): Promise<readonly string[]> => {
  const hasAccount = (condition: RawBuilder<boolean>) =>
    sql<boolean>`exists (select from read.journal_accounts a where a.book = b.book and ${condition})`
  const { rows } = await sql<{ book: string }>`
    select book from (
      select ${book}::text as book where ${book}::text is not null
      union all select ${serviceBook}::text where ${book}::text is null
      union all select 'reseller:' || account_id from read.journal_resellers where ${book}::text is null
    ) b
    where ${hasAccount(sql`a.account = ${account}::text`)} or ${below}::boolean and
      ${hasAccount(sql`a.account >= ${account}::text || ':' and a.account < ${account}::text || ';'`)}
    order by book <> ${serviceBook}::text, book limit 10`.execute(db)
  return rows.map(({ book: found }) => found)
}

/** The message for an unknown book, the same in the command line and over HTTP. */
const noSuchBook = (book: string): string => `there is no book ${book}; a book is ${bookForms}`

/**
 * The account of an id: `acc_…` its wallet, `cus_…` the customer's credit, `crd_…` the gateway. Else the given name.
 */
export const accountName = (typedName: string): string => {
  if (/^acc_\w+$/.test(typedName)) return walletAccount(typedName as AccountId)
  if (/^crd_\w+$/.test(typedName)) return gatewayAccount(typedName)
  return /^cus_\w+$/.test(typedName) ? customerAccount(typedName) : typedName
}

/** The book of an account, or why it was not found; `account` is its name in the books. */
type FoundAccount =
  | { readonly outcome: 'found'; readonly book: string; readonly account: string }
  | { readonly outcome: 'unknown_book'; readonly book: string }
  /** No book has the account, or the given book does not have it. */
  | { readonly outcome: 'unknown_account'; readonly book: string | null; readonly account: string }
  /** The name is a parent of accounts and has no lines of its own. */
  | { readonly outcome: 'parent'; readonly account: string }
  /** The books of several resellers have the account, and the service's does not. */
  | { readonly outcome: 'several_books'; readonly books: readonly string[]; readonly account: string }

/**
 * Finds an account by an argument of `accountName`: in the given book, else in the service's, else in the only book
 * that has it. With `below` the name of a parent such as `revenue` is also accepted.
 */
const findAccount = async (
  db: Db,
  typedName: string,
  { book, below }: { readonly book: string | null; readonly below: boolean },
): Promise<FoundAccount> => {
  if (book !== null && !(await hasBook(db, book))) return { outcome: 'unknown_book', book }
  const account = accountName(typedName)
  const books = await booksOf(db, account, { below, book })
  const [first, second] = books
  if (first === undefined) {
    const parent = !below && (await booksOf(db, account, { below: true, book })).length > 0
    return parent ? { outcome: 'parent', account } : { outcome: 'unknown_account', book, account }
  }
  if (first !== serviceBook && second !== undefined) return { outcome: 'several_books', books, account }
  return { outcome: 'found', book: first, account }
}

type Problem = Exclude<FoundAccount, { readonly outcome: 'found' }>

/** The texts and errors of one interface to the books. */
export type AccountMessages = {
  /** Where all accounts are listed. */
  readonly list: string
  /** Where the accounts below one are listed. */
  below(account: string): string
  /** How a book is given. */
  readonly naming: string
  /** What is accepted besides accounts, after a semicolon; left out: nothing. */
  readonly besides?: string
  refusal(outcome: Problem['outcome'], message: string): Error
}

const messageOf = (problem: Problem, { list, below, naming, besides = '' }: AccountMessages): string => {
  switch (problem.outcome) {
    case 'unknown_book':
      return noSuchBook(problem.book)
    case 'unknown_account': {
      const bookText = problem.book === null ? 'no book has an' : `the book ${problem.book} has no`
      return `${bookText} account ${problem.account || '""'}; ${list} lists them all${besides}`
    }
    case 'parent':
      return `${problem.account} stands for those below it and has no lines of its own: ${below(problem.account)} lists them, name one`
    case 'several_books':
      return `several books have an account ${problem.account}: name one ${naming}, e.g. ${problem.books.join(', ')}`
    default:
      return problem satisfies never
  }
}

/** Finds books and accounts for the command line and HTTP, with the messages of each. */
export const createAccountLookup = (lookupMessages: AccountMessages) => ({
  /** @throws lookupMessages.refusal for a book that is neither the service's nor a reseller's */
  checkBook: async (db: Db, book: string | undefined): Promise<void> => {
    if (book !== undefined && !(await hasBook(db, book)))
      throw lookupMessages.refusal('unknown_book', noSuchBook(book))
  },
  /** Finds an account (`findAccount`). @throws lookupMessages.refusal */
  namedAccount: async (
    db: Db,
    typedName: string,
    { book = null, below }: { readonly book: string | null | undefined; readonly below: boolean },
  ): Promise<{ readonly book: string; readonly account: string }> => {
    const found = await findAccount(db, typedName, { book, below })
    if (found.outcome !== 'found')
      throw lookupMessages.refusal(found.outcome, messageOf(found, lookupMessages))
    return { book: found.book, account: found.account }
  },
})
