import { plainDollars } from '../finance/amounts.ts'
import type { Entry } from '../finance/entries.ts'
import { dayOf, type JournalWriter, legsByBook } from './format.ts'

/** How a program for accounts spells what a journal holds. Amounts are dollars with six decimals. */
export type Spelling = {
  head(): string
  /** The account's name; `opening` stands before its first entry, empty later. */
  account(book: string, account: string, day: string): { readonly name: string; readonly opening: string }
  /** What stands above the legs of an entry. */
  entry(entry: Entry, day: string): string
  /** What comes before an account's name in a leg. */
  readonly indent: string
  /** All balances, by name; the text that makes the program itself check them. `day` is the last entry's. */
  end(balances: ReadonlyMap<string, string>, day: string): string
}

/** A journal with a transaction for each book of each entry. It keeps a balance for each account. */
export const journalWriter = (spelling: Spelling, only: string | null): JournalWriter => {
  const balances = new Map<string, bigint>()
  let lastDay = '1970-01-01'
  return {
    head: spelling.head,
    entry: (entry) => {
      lastDay = dayOf(entry.at)
      let text = ''
      for (const [book, legs] of legsByBook(entry, only)) {
        let lines = ''
        for (const { account, amountMicros } of legs) {
          const amount = BigInt(amountMicros)
          const { name, opening } = spelling.account(book, account, lastDay)
          text += opening
          balances.set(name, (balances.get(name) ?? 0n) + amount)
          lines += `${spelling.indent}${name}  ${plainDollars(amount)} USD\n`
        }
        text += `${spelling.entry(entry, lastDay)}${lines}\n`
      }
      return text
    },
    end: () => {
      const sorted = [...balances].sort(([a], [b]) => (a < b ? -1 : 1))
      return spelling.end(new Map(sorted.map(([name, balance]) => [name, plainDollars(balance)])), lastDay)
    },
  }
}
