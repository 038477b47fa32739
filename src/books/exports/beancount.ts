import { positionToken } from '../../terms/position.ts'
import { type ExportHead, factsOf, type JournalWriter } from './format.ts'
import { journalWriter, type Spelling } from './journal-writer.ts'

const roots: Readonly<Record<string, string>> = {
  assets: 'Assets',
  liabilities: 'Liabilities',
  equity: 'Equity',
  revenue: 'Revenue',
  expenses: 'Expenses',
}

/** A part of a name as beancount takes it: letters, digits and dashes, the first one upper case or a digit. */
const part = (text: string): string => {
  const plain = text.replaceAll(/[^A-Za-z0-9-]/g, '-').replace(/^-+/, '')
  return plain === '' ? 'X' : `${plain.charAt(0).toUpperCase()}${plain.slice(1)}`
}

const quoted = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

const dayAfter = (day: string): string =>
  new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10)

/**
 * Gives accounts names that beancount takes, e.g. `Liabilities:Service:Wallet:Acc-0199…` for `liabilities:wallet:acc_0199…`
 * in the book `service`. Two accounts that would be spelt alike are told apart by a number, in order of appearance.
 */
const createNames = (withBook: boolean) => {
  const byAccount = new Map<string, string>()
  const taken = new Set<string>()
  return (book: string, account: string): { readonly name: string; readonly fresh: boolean } => {
    const key = `${book}\0${account}`
    const known = byAccount.get(key)
    if (known !== undefined) return { name: known, fresh: false }
    const [kind = '', ...rest] = account.split(':')
    const root = roots[kind]
    if (root === undefined) throw new Error(`account ${account} is of no kind that beancount knows`)
    const spelt = [root, ...(withBook ? book.split(':').map(part) : []), ...rest.map(part)].join(':')
    let name = spelt
    for (let n = 2; taken.has(name); n += 1) name = `${spelt}-${n}`
    byAccount.set(key, name)
    taken.add(name)
    return { name, fresh: true }
  }
}

/**
 * A ledger for beancount 2.3 and later. Each account is opened with its first entry and says its exact name and book in
 * its metadata. Balance assertions on the day after the last entry make beancount itself refuse a file that lost or
 * gained a line.
 */
export const beancountWriter = ({ logId, book: only, gatewayOf }: ExportHead): JournalWriter => {
  const nameOf = createNames(only === null)
  const spelling: Spelling = {
    head: () =>
      [
        '; Farebox: the ledger for beancount. Amounts are exact, times are UTC, dates are accounting time.',
        `; log ${logId}, ${only === null ? 'every book' : `book ${only}`}`,
        `option "title" ${quoted(`Farebox ${only ?? 'ledger'}`)}`,
        'option "operating_currency" "USD"',
        'option "name_income" "Revenue"',
        '',
        '',
      ].join('\n'),
    account: (book, account, day) => {
      const { name, fresh } = nameOf(book, account)
      if (!fresh) return { name, opening: '' }
      const gateway = gatewayOf(account)
      return {
        name,
        opening: `${day} open ${name} USD\n  account: ${quoted(account)}\n  book: ${quoted(book)}\n${gateway === null ? '' : `  gateway: ${quoted(gateway)}\n`}`,
      }
    },
    entry: (entry, day) => {
      const facts = factsOf(entry).map(([name, value]) => `  ${name}: ${quoted(value)}\n`)
      return `${day} * ${quoted(entry.type)}\n  position: ${quoted(positionToken(entry.position))}\n${facts.join('')}`
    },
    indent: '  ',
    end: (balances, day) =>
      [...balances].map(([name, balance]) => `${dayAfter(day)} balance ${name}  ${balance} USD\n`).join(''),
  }
  return journalWriter(spelling, only)
}
