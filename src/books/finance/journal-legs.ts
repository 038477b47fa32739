/** Positions of the log after `after`, up to and including `to`. */
export type Range = { readonly after: number; readonly to: number }

/** One account, or with `below` all accounts whose names begin with its parts. */
export type AccountFilter = { readonly book: string; readonly account: string; readonly below: boolean }

/**
 * The condition that an account's rows of `read.journal_postings` meet, and its values. With `below`, `a:b` stands for
 * everything from `a:b:` on too: `;` is the character after `:`, so that the index is read as a range. One account's legs
 * come in the order of the log by their own index, without a sort.
 * @param first the number of the statement's parameter that holds the book; the values come right after it
 */
export const legsOf = (
  { account, below }: AccountFilter,
  first: number,
): { sql: string; values: readonly string[] } => {
  const numbers = `select number from read.journal_accounts where book = $${first}::text`
  return below
    ? {
        sql: `account_number in (${numbers} and (account = $${first + 1}::text
                or account >= $${first + 2}::text and account < $${first + 3}::text))`,
        values: [account, `${account}:`, `${account};`],
      }
    : { sql: `account_number = (${numbers} and account = $${first + 1}::text)`, values: [account] }
}
