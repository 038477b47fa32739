/** The command of a report: its help texts and its arguments besides moments and a book. */
export type ReportForm = {
  /** The name of the command. */
  readonly name: string
  readonly takes: { readonly account?: true; readonly depth?: true }
  readonly command: {
    /** For the list of commands, if the description is long. */
    readonly summary?: string
    readonly description: string
    readonly examples: readonly string[]
  }
}

/** In the order of the list of commands. */
export const reportForms = {
  trialBalance: {
    name: 'trial-balance',
    takes: { depth: true },
    command: {
      summary: 'balances of every account in every book; each book sums to zero',
      description:
        'balances of every account in every book; each book sums to zero. A table of balances leaves out accounts at zero; csv, json and a range (--from, --to) have every account that moved',
      examples: [
        'npx farebox ledger trial-balance --as-of 2026-11-01',
        'npx farebox ledger trial-balance --from 2026-10-01 --to 2026-11-01 --book service --format csv',
        'npx farebox ledger trial-balance --as-of pos_0_1284 --depth 2',
      ],
    },
  },
  account: {
    name: 'account',
    takes: { account: true },
    command: {
      description: 'the balance of an account and of those below it, e.g. revenue or acc_… for a wallet',
      examples: [
        'npx farebox ledger account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        'npx farebox ledger account revenue --from 2026-10-01 --to 2026-11-01',
        'npx farebox ledger account equity:funding --book reseller:acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      ],
    },
  },
  statement: {
    name: 'statement',
    takes: { account: true },
    command: {
      description: 'what moved an account, oldest first, with its balance after each line',
      examples: [
        'npx farebox ledger statement acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --from 2026-10-01 --to 2026-11-01',
        'npx farebox ledger statement assets:gateway:manual --format csv',
      ],
    },
  },
} as const satisfies Record<string, ReportForm>
