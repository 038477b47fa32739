import { plainDollars } from '../finance/amounts.ts'
import { dayOf, type ExportHead, factsOf, type JournalWriter, legsByBook } from './format.ts'

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
export const hledgerWriter = ({ logId, book: only }: ExportHead): JournalWriter => {
  const balances = new Map<string, bigint>()
  let lastDay = '1970-01-01'

  const nameOf = (book: string, account: string): string => (only === null ? `${book}:${account}` : account)

  const declare = (name: string, account: string): string => {
    if (balances.has(name)) return ''
    balances.set(name, 0n)
    const kind = kinds[account.slice(0, account.indexOf(':'))]
    if (kind === undefined) throw new Error(`account ${account} is of no kind that hledger knows`)
    return `account ${name}  ; type:${kind}\n`
  }

  return {
    head: () =>
      [
        '; Farebox: the ledger for hledger. Amounts are exact, times are UTC, dates are accounting time.',
        `; log ${logId}, ${only === null ? 'every book' : `book ${only}`}`,
        'decimal-mark .',
        'commodity 1000.000000 USD',
        '',
        '',
      ].join('\n'),
    entry: (entry) => {
      let text = ''
      lastDay = dayOf(entry.at)
      for (const [book, legs] of legsByBook(entry, only)) {
        let lines = ''
        for (const { account, amountMicros } of legs) {
          const name = nameOf(book, account)
          text += declare(name, account)
          balances.set(name, (balances.get(name) ?? 0n) + BigInt(amountMicros))
          lines += `    ${name}  ${plainDollars(BigInt(amountMicros))} USD\n`
        }
        text += `${lastDay} * (${entry.position}) ${entry.type}\n`
        text += `${factsOf(entry).map(comment).join('')}${lines}\n`
      }
      return text
    },
    end: () => {
      if (balances.size === 0) return ''
      const names = [...balances.keys()].sort()
      const lines = names.map(
        (name) => `    ${name}  0 USD = ${plainDollars(balances.get(name) ?? 0n)} USD\n`,
      )
      return `${lastDay} * balances\n${lines.join('')}`
    },
  }
}
