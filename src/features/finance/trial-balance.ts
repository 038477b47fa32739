import { csv } from '../../kernel/csv.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import { accountText } from './gateway-names.ts'
import { type AccountSums, closingMicros } from './journal.ts'

export type BookSums = { readonly book: string; readonly accounts: readonly AccountSums[] }

/** The reported range: positions, and their times. */
export type Span = {
  /** The range's start, exclusive; 0: everything before the end. */
  readonly after: number
  readonly position: number
  /** Accounting time as of `position`, as in a replay; null before the first event. */
  readonly at: string | null
}

const hasMovement = (sums: AccountSums): boolean =>
  sums.openingMicros !== 0n || sums.debitMicros !== 0n || sums.creditMicros !== 0n

/**
 * Sums by book, in the order of their names. An account with movements is listed even if its balance is 0, so that the
 * lines always add up to the book's totals. Accounts without a movement in the span and without a balance are left out.
 */
export const byBook = (allSums: readonly AccountSums[]): readonly BookSums[] =>
  [...Map.groupBy(allSums, ({ book }) => book)].map(([book, accounts]) => ({
    book,
    accounts: accounts.filter(hasMovement),
  }))

const total = (accounts: readonly AccountSums[], of: (sums: AccountSums) => bigint): bigint =>
  accounts.reduce((sum, each) => sum + of(each), 0n)

export const totalsOfBook = (
  accounts: readonly AccountSums[],
): Omit<AccountSums, 'book' | 'account' | 'gateway'> => ({
  openingMicros: total(accounts, ({ openingMicros }) => openingMicros),
  debitMicros: total(accounts, ({ debitMicros }) => debitMicros),
  creditMicros: total(accounts, ({ creditMicros }) => creditMicros),
})

/** Amounts as text, because sums over accounts exceed the safe integers. */
export const sumsJson = (sums: Omit<AccountSums, 'book' | 'account' | 'gateway'>) => ({
  openingMicros: String(sums.openingMicros),
  debitMicros: String(sums.debitMicros),
  creditMicros: String(sums.creditMicros),
  balanceMicros: String(closingMicros(sums)),
})

const accountJson = (sums: AccountSums) => ({
  book: sums.book,
  account: sums.account,
  gateway: sums.gateway ?? null,
  ...sumsJson(sums),
})

export const spanJson = ({ after, position, at }: Span) => ({
  after: positionToken(after),
  position: positionToken(position),
  at,
  currency: 'USD' as const,
})

/** A trial balance on the command line and over HTTP; `listedAccounts` is the page of its accounts, left out: all. */
export const trialBalanceJson = (
  span: Span,
  books: readonly BookSums[],
  listedAccounts: readonly AccountSums[] = books.flatMap(({ accounts }) => accounts),
) => ({
  ...spanJson(span),
  totals: books.map(({ book, accounts }) => ({ book, ...sumsJson(totalsOfBook(accounts)) })),
  accounts: listedAccounts.map(accountJson),
})

/** An account with those below it, as above. */
export const accountBalanceJson = (
  span: Span,
  { book, accounts }: BookSums,
  account: string,
  listedAccounts: readonly AccountSums[] = accounts,
) => ({
  ...spanJson(span),
  book,
  account,
  ...sumsJson(totalsOfBook(accounts)),
  accounts: listedAccounts.map(accountJson),
})

export const trialBalanceCsv = (books: readonly BookSums[]): string =>
  csv(
    ['book', 'account', 'opening', 'debit', 'credit', 'balance', 'gateway'],
    books.flatMap(({ accounts }) =>
      accounts.map((sums) => [
        sums.book,
        sums.account,
        plainDollars(sums.openingMicros),
        plainDollars(sums.debitMicros),
        plainDollars(sums.creditMicros),
        plainDollars(closingMicros(sums)),
        sums.gateway ?? null,
      ]),
    ),
  )

type Line = { readonly account: string; readonly amounts: readonly (bigint | null)[] }

const textOf = ({ account, gateway }: AccountSums): string => accountText(account, gateway)

const positiveOrNull = (micros: bigint): bigint | null => (micros > 0n ? micros : null)

/** Balances on their sides, as in a trial balance. */
const sides = (accounts: readonly AccountSums[]): readonly Line[] => {
  const lines = accounts.map((sums): Line => {
    const balance = closingMicros(sums)
    return { account: textOf(sums), amounts: [positiveOrNull(balance), positiveOrNull(-balance)] }
  })
  const side = (index: number) => lines.reduce((sum, { amounts }) => sum + (amounts[index] ?? 0n), 0n)
  return [...lines, { account: 'TOTAL', amounts: [side(0), side(1)] }]
}

const movements = (accounts: readonly AccountSums[]): readonly Line[] => {
  const line = (account: string, sums: Omit<AccountSums, 'book' | 'account' | 'gateway'>): Line => ({
    account,
    amounts: [sums.openingMicros, sums.debitMicros, sums.creditMicros, closingMicros(sums)],
  })
  return [...accounts.map((sums) => line(textOf(sums), sums)), line('TOTAL', totalsOfBook(accounts))]
}

/**
 * The accounts with a balance. A table of balances has no line for a balance of 0: it is neither a debit nor a credit.
 */
const nonZeroAccounts = (accounts: readonly AccountSums[]): readonly AccountSums[] =>
  accounts.filter((sums) => closingMicros(sums) !== 0n)

/** The lines of one book as a table: balances by side; over a range opening, movements and closing. */
export const sumsTable = (accounts: readonly AccountSums[], ranged: boolean): string => {
  const lines = ranged ? movements(accounts) : sides(accounts)
  const write = amountWriter(lines.flatMap(({ amounts }) => amounts.filter((amount) => amount !== null)))
  const titles = ranged ? ['OPENING', 'DEBIT', 'CREDIT', 'CLOSING'] : ['DEBIT', 'CREDIT']
  const amountColumns = titles.map((title, index) => {
    const cell = ({ amounts }: Line) => {
      const amount = amounts[index] ?? null
      return amount === null ? '' : write(amount)
    }
    return [title, cell] as const
  })
  return table(lines, { account: 'account', ...Object.fromEntries(amountColumns) })
}

const ofPosition = ({ position, at }: Span): string =>
  at === null ? `position ${positionToken(position)}` : `position ${positionToken(position)} (${at})`

export const spanText = (span: Span, ranged: boolean): string =>
  ranged
    ? `after position ${positionToken(span.after)} up to ${ofPosition(span)}`
    : `as of ${ofPosition(span)}`

export const trialBalanceText = (span: Span, books: readonly BookSums[], ranged: boolean): string =>
  books.length === 0
    ? `no entries ${spanText(span, ranged)}`
    : books
        .map(
          ({ book, accounts }) =>
            `book ${book}, US dollars, ${spanText(span, ranged)}\n\n${sumsTable(ranged ? accounts : nonZeroAccounts(accounts), ranged)}`,
        )
        .join('\n\n')
