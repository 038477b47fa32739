import type { Entry } from '../../domain/finance/entries.ts'
import { kindText } from '../../domain/finance/entry-kinds.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { csvHead, csvLines } from '../../kernel/csv.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { plainDollars } from '../../kernel/money.ts'
import type { GatewayName } from '../finance/index.ts'

export const formats = ['hledger', 'beancount', 'csv', 'jsonl'] as const
export type Format = (typeof formats)[number]
export type JournalFormat = Exclude<Format, 'jsonl'>

/** Files with one journal a day for other accounting systems (`dailyWriter`). */
export const dailyFormats = ['xero', 'quickbooks'] as const
export type DailyFormat = (typeof dailyFormats)[number]

/** The data in an export's header. */
export type ExportHead = {
  readonly logId: string
  /** The book that is exported. Null: all books are exported. */
  readonly book: string | null
  /** Returns the name of a gateway once it has seen the event that set it. */
  readonly gatewayOf: GatewayName
  /** Of the accounting time zone. */
  readonly calendar: Calendar
}

/** Writes a journal for accounting software: text for its head, for each entry, and for its end. */
export type JournalWriter = {
  head(): string
  /** Empty if no posting belongs to the exported book. */
  entry(entry: Entry): string
  end(): string
}

/** One leg: book and account of a posting, and micro-dollars; positive for a debit, negative for a credit. */
export type Leg = { readonly book: string; readonly account: string; readonly amountMicros: number }

/** The legs of an entry by book, in order. The legs of each book sum to zero and form one transaction. */
export const legsByBook = (entry: Entry, bookFilter: string | null): ReadonlyMap<string, readonly Leg[]> => {
  const books = new Map<string, Leg[]>()
  for (const { book, account, debitMicros, creditMicros } of entry.postings) {
    if (bookFilter !== null && book !== bookFilter) continue
    const legs = books.get(book)
    const leg = { book, account, amountMicros: debitMicros - creditMicros }
    if (legs === undefined) books.set(book, [leg])
    else legs.push(leg)
  }
  return books
}

/** The known properties of an entry other than its accounts. */
export const factsOf = (entry: Entry): readonly (readonly [name: string, value: string])[] => {
  const facts: readonly (readonly [string, string | null])[] = [
    ['event', entry.eventId],
    ['type', entry.type],
    ['time', entry.at],
    ['owner', entry.accountId],
    ['order', entry.orderId],
    ['customer', entry.customerId],
    ['deposit', entry.depositId],
    ['reference', entry.reference],
  ]
  return facts.filter((fact): fact is readonly [string, string] => fact[1] !== null)
}

/** The syntax of an accounting program. Amounts are dollars with six decimals. */
export type Spelling = {
  head(): string
  /** The account's name; `opening` precedes its first entry and is empty later. */
  account(book: string, account: string): { readonly name: string; readonly opening: string }
  /** The text above the legs of an entry. */
  entry(entry: Entry, day: string): string
  /** The text before an account's name in a leg. */
  readonly indent: string
  /**
   * All balances by account name. Returns text that makes the program check them. `day` is the latest day of an entry.
   */
  end(balances: ReadonlyMap<string, string>, day: string): string
}

/** Before all entries. */
const firstDay = '1970-01-01'

/** A journal with a transaction for each book of each entry. It tracks a balance for each account. */
export const journalWriter = (
  spelling: Spelling,
  { book: bookFilter, calendar }: Pick<ExportHead, 'book' | 'calendar'>,
): JournalWriter => {
  const balances = new Map<string, bigint>()
  let lastDay = firstDay
  return {
    head: spelling.head,
    entry: (entry) => {
      const day = calendar.dayOf(Date.parse(entry.at))
      if (day > lastDay) lastDay = day
      let text = ''
      for (const [book, legs] of legsByBook(entry, bookFilter)) {
        let lines = ''
        for (const { account, amountMicros } of legs) {
          const amount = BigInt(amountMicros)
          const { name, opening } = spelling.account(book, account)
          text += opening
          balances.set(name, (balances.get(name) ?? 0n) + amount)
          lines += `${spelling.indent}${name}  ${plainDollars(amount)} USD\n`
        }
        text += `${spelling.entry(entry, day)}${lines}\n`
      }
      return text
    },
    end: () => {
      const sorted = [...balances].sort(([a], [b]) => (a < b ? -1 : 1))
      return spelling.end(new Map(sorted.map(([name, balance]) => [name, plainDollars(balance)])), lastDay)
    },
  }
}

const roots: Readonly<Record<string, string>> = {
  assets: 'Assets',
  liabilities: 'Liabilities',
  equity: 'Equity',
  revenue: 'Revenue',
  expenses: 'Expenses',
}

/** A part of a beancount account name: letters, digits and dashes, starting with an upper-case letter or a digit. */
const part = (text: string): string => {
  const sanitized = text.replaceAll(/[^A-Za-z0-9-]/g, '-').replace(/^-+/, '')
  return sanitized === '' ? 'X' : `${sanitized.charAt(0).toUpperCase()}${sanitized.slice(1)}`
}

const quoted = (text: string): string =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\r', '\\r')}"`

const dayAfter = (day: string): string =>
  new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10)

/**
 * Converts account names for beancount, e.g. `Liabilities:Service:Wallet:Acc-0199…` for `liabilities:wallet:acc_0199…`
 * in the book `service`. A number distinguishes accounts that would get the same name, in order of appearance.
 */
const createNames = (includesBook: boolean) => {
  const byAccount = new Map<string, string>()
  const usedNames = new Set<string>()
  return (book: string, account: string): { readonly name: string; readonly fresh: boolean } => {
    const key = `${book}\0${account}`
    const knownName = byAccount.get(key)
    if (knownName !== undefined) return { name: knownName, fresh: false }
    const [kind = '', ...rest] = account.split(':')
    const root = roots[kind]
    if (root === undefined) throw new Error(`account ${account} is of no kind that beancount knows`)
    const fullName = [root, ...(includesBook ? book.split(':').map(part) : []), ...rest.map(part)].join(':')
    let name = fullName
    for (let n = 2; usedNames.has(name); n += 1) name = `${fullName}-${n}`
    byAccount.set(key, name)
    usedNames.add(name)
    return { name, fresh: true }
  }
}

/**
 * A ledger for beancount 2.3 and later. Each account is opened before its first entry, with its exact name and book as
 * metadata, on a day before all entries: a later line of a statement may be dated back. Balance assertions on the day
 * after the last entry make beancount refuse a file that lost or gained a line.
 */
export const beancountWriter = (exportHead: ExportHead): JournalWriter => {
  const { logId, book: bookFilter, gatewayOf, calendar } = exportHead
  const nameOf = createNames(bookFilter === null)
  const spelling: Spelling = {
    head: () =>
      [
        `; Farebox: the ledger for beancount. Amounts are exact, times are UTC, dates are accounting time in ${calendar.zone}.`,
        `; log ${logId}, ${bookFilter === null ? 'every book' : `book ${bookFilter}`}`,
        `option "title" ${quoted(`Farebox ${bookFilter ?? 'ledger'}`)}`,
        'option "operating_currency" "USD"',
        'option "name_income" "Revenue"',
        '',
        '',
      ].join('\n'),
    account: (book, account) => {
      const { name, fresh: isNew } = nameOf(book, account)
      if (!isNew) return { name, opening: '' }
      const gateway = gatewayOf(account)
      return {
        name,
        opening: `${firstDay} open ${name} USD\n  account: ${quoted(account)}\n  book: ${quoted(book)}\n${gateway === null ? '' : `  gateway: ${quoted(gateway)}\n`}`,
      }
    },
    entry: (entry, day) => {
      const facts = factsOf(entry).map(([name, value]) => `  ${name}: ${quoted(value)}\n`)
      return `${day} * ${quoted(kindText(entry.kind))}\n  position: ${quoted(positionToken(entry.position))}\n${facts.join('')}`
    },
    indent: '  ',
    end: (balances, day) =>
      [...balances].map(([name, balance]) => `${dayAfter(day)} balance ${name}  ${balance} USD\n`).join(''),
  }
  return journalWriter(spelling, exportHead)
}

const columns = [
  'position',
  'time',
  'event',
  'type',
  'book',
  'account',
  'debit',
  'credit',
  'currency',
  'owner',
  'order',
  'customer',
  'deposit',
  'reference',
  'gateway',
  'kind',
] as const

/**
 * One line for each posting, with exact dollars to six decimals in the column of its side. `csvLines` escapes texts for
 * spreadsheets; `jsonl` has the original texts.
 */
export const csvWriter = ({ book: bookFilter, gatewayOf }: ExportHead): JournalWriter => ({
  head: () => csvHead(columns),
  entry: (entry) => {
    const { position, at, eventId, type, kind, accountId, orderId, customerId, depositId, reference } = entry
    const before = [positionToken(position), at, eventId, type]
    const after = ['USD', accountId, orderId, customerId, depositId, reference]
    const legs = [...legsByBook(entry, bookFilter).values()].flat()
    return csvLines(
      legs.map(({ book, account, amountMicros }) => {
        const debit = amountMicros > 0 ? plainDollars(BigInt(amountMicros)) : null
        const credit = amountMicros < 0 ? plainDollars(BigInt(-amountMicros)) : null
        return [...before, book, account, debit, credit, ...after, gatewayOf(account), kind]
      }),
    )
  },
  end: () => '',
})

/** hledger's letters for account types (its manual, "Account types"), by the first part of our names. */
const kinds: Readonly<Record<string, string>> = {
  assets: 'A',
  liabilities: 'L',
  equity: 'E',
  revenue: 'R',
  expenses: 'X',
}

/**
 * A tag's value ends at a comma or line end, and what follows may be another tag. A reference is free text of a person
 * or a provider, so characters that could end the value or begin a tag are written as `%2C`, as in a URL.
 */
const tagValue = (text: string): string =>
  text.toWellFormed().replaceAll(/[%,:;[\]\p{C}\p{Zl}\p{Zp}]/gu, encodeURIComponent)

/** Each property has its own comment line. Only the reference is free text. */
const comment = ([name, value]: readonly [string, string]): string =>
  `    ; ${name}:${name === 'reference' ? tagValue(value) : value}\n`

/**
 * A journal for hledger 1.25 and later. With every book, accounts are below their book
 * (`service:liabilities:wallet:acc_…`), and declare their type, so that `hledger bs` and `hledger is` work. A single
 * book has our names unchanged. The last transaction moves nothing and asserts every balance, so that hledger refuses a
 * file that lost or gained a line.
 */
export const hledgerWriter = (exportHead: ExportHead): JournalWriter => {
  const { logId, book: bookFilter, gatewayOf, calendar } = exportHead
  const declared = new Set<string>()
  const spelling: Spelling = {
    head: () =>
      [
        `; Farebox: the ledger for hledger. Amounts are exact, times are UTC, dates are accounting time in ${calendar.zone}.`,
        `; log ${logId}, ${bookFilter === null ? 'every book' : `book ${bookFilter}`}`,
        'decimal-mark .',
        'commodity 1000.000000 USD',
        '',
        '',
      ].join('\n'),
    account: (book, account) => {
      const name = bookFilter === null ? `${book}:${account}` : account
      if (declared.has(name)) return { name, opening: '' }
      declared.add(name)
      const kind = kinds[account.slice(0, account.indexOf(':'))]
      if (kind === undefined) throw new Error(`account ${account} is of no kind that hledger knows`)
      const gateway = gatewayOf(account)
      const tags = gateway === null ? `type:${kind}` : `type:${kind}, gateway:${gateway}`
      return { name, opening: `account ${name}  ; ${tags}\n` }
    },
    entry: (entry, day) =>
      `${day} * (${positionToken(entry.position)}) ${kindText(entry.kind)}\n${factsOf(entry).map(comment).join('')}`,
    indent: '    ',
    end: (balances, day) => {
      if (balances.size === 0) return ''
      const lines = [...balances].map(([name, balance]) => `    ${name}  0 USD = ${balance} USD\n`)
      return `${day} * balances\n${lines.join('')}`
    },
  }
  return journalWriter(spelling, exportHead)
}
