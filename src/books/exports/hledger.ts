import { positionToken } from '../../terms/position.ts'
import { type ExportHead, factsOf, type JournalWriter } from './format.ts'
import { journalWriter, type Spelling } from './journal-writer.ts'

/** hledger's letters for the kinds of accounts (its manual, "Account types"), by our first part. */
const kinds: Readonly<Record<string, string>> = {
  assets: 'A',
  liabilities: 'L',
  equity: 'E',
  revenue: 'R',
  expenses: 'X',
}

/** A tag's value ends at a comma, so each fact has a comment line of its own; no fact holds a line break. */
const comment = ([name, value]: readonly [string, string]): string => `    ; ${name}:${value}\n`

/**
 * A journal for hledger 1.25 and later. With every book in it, each account stands below its book
 * (`service:liabilities:wallet:acc_…`), and says its kind, so that `hledger bs` and `hledger is` work; one book alone has
 * our names as they are. The last transaction moves nothing and asserts every balance, so that a file which lost or
 * gained a line is refused by hledger itself.
 */
export const hledgerWriter = ({ logId, book: only, gatewayOf }: ExportHead): JournalWriter => {
  const declared = new Set<string>()
  const spelling: Spelling = {
    head: () =>
      [
        '; Farebox: the ledger for hledger. Amounts are exact, times are UTC, dates are accounting time.',
        `; log ${logId}, ${only === null ? 'every book' : `book ${only}`}`,
        'decimal-mark .',
        'commodity 1000.000000 USD',
        '',
        '',
      ].join('\n'),
    account: (book, account) => {
      const name = only === null ? `${book}:${account}` : account
      if (declared.has(name)) return { name, opening: '' }
      declared.add(name)
      const kind = kinds[account.slice(0, account.indexOf(':'))]
      if (kind === undefined) throw new Error(`account ${account} is of no kind that hledger knows`)
      const gateway = gatewayOf(account)
      const tags = gateway === null ? `type:${kind}` : `type:${kind}, gateway:${gateway}`
      return { name, opening: `account ${name}  ; ${tags}\n` }
    },
    entry: (entry, day) =>
      `${day} * (${positionToken(entry.position)}) ${entry.type}\n${factsOf(entry).map(comment).join('')}`,
    indent: '    ',
    end: (balances, day) => {
      if (balances.size === 0) return ''
      const lines = [...balances].map(([name, balance]) => `    ${name}  0 USD = ${balance} USD\n`)
      return `${day} * balances\n${lines.join('')}`
    },
  }
  return journalWriter(spelling, only)
}
