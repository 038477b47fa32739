import type { Calendar } from '../../kernel/calendar.ts'
import { isDate, isInstant, isoTime } from '../../kernel/clock.ts'
import { parsePosition, positionForm } from '../../kernel/log-position.ts'

/** A moment of the log: a position, or an instant of accounting time. */
export type Moment =
  | { readonly kind: 'position'; readonly position: number }
  | { readonly kind: 'time'; readonly atMs: number }

/** An instant as events record it, ISO 8601 UTC. Nothing was recorded before 1970, and Postgres has no year 0. */
export const instantText = (atMs: number): string => isoTime(Math.max(atMs, 0))

/** The last instant of an answer up to a moment; null: the moment is a position, or there is none. */
export const lastInstantOf = (until: Moment | null): string | null =>
  until?.kind === 'time' ? instantText(until.atMs) : null

/** A moment as typed. A day is its first instant in the accounting time zone. */
export type TypedMoment = Moment | { readonly kind: 'day'; readonly day: string }

export const momentOf = (typed: TypedMoment, calendar: Calendar): Moment =>
  typed.kind === 'day' ? { kind: 'time', atMs: calendar.startOfDayMs(typed.day) } : typed

/** The accepted forms of a moment, for messages and help. */
export const momentForms = `${positionForm}, a date such as 2026-11-21 (its midnight in the accounting time zone), or an instant such as 2026-11-21T02:30:00Z`

/** Parses a position, a date or an instant (ISO 8601); null if invalid. */
export const parseMoment = (text: string): TypedMoment | null => {
  const position = parsePosition(text)
  if (position !== null) return { kind: 'position', position }
  if (isDate(text)) return { kind: 'day', day: text }
  return isInstant(text) ? { kind: 'time', atMs: Date.parse(text) } : null
}

/** The accepted names of a book, for messages and help. */
export const bookForms = 'service, or reseller:ACCOUNT_ID'

/** The resources that can be explained, by the prefix of their id. `acc_…` and `cus_…` are accounts of the books. */
const resources = {
  ord: 'order',
  dep: 'deposit',
  sub: 'subscription',
  pln: 'plan',
  prx: 'proxy',
  ref: 'refund',
  scr: 'scrape',
  crd: 'gateway',
  whs: 'webhook',
  key: 'key',
  ntc: 'notice',
} as const

export type ResourcePrefix = keyof typeof resources

/** For help and messages. */
export const resourceIds = Object.keys(resources)
  .map((prefix) => `${prefix}_`)
  .join(', ')

/** The prefix of an id; null for an id of another kind. */
export const resourcePrefix = (id: string): ResourcePrefix | null => {
  const prefix = id.slice(0, 3)
  return /^[a-z]{3}_\w+$/.test(id) && Object.hasOwn(resources, prefix) ? (prefix as ResourcePrefix) : null
}

/** The kind of a resource id, e.g. `deposit`; null for an id that `findTrail` does not support. */
export const resourceKind = (id: string): string | null => {
  const prefix = resourcePrefix(id)
  return prefix && resources[prefix]
}

/** The command of a report: its help texts and its arguments besides moments and a book. */
export type ReportForm = {
  /** The name of the command. */
  readonly name: string
  readonly takes: {
    readonly account?: true
    readonly depth?: true
    /** Only a moment: no range and no book. */
    readonly moment?: true
  }
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
        'balances of every account in every book; each book sums to zero. A table of balances leaves out accounts at zero. csv, json and a range (--from, --to) have every account with a line',
      examples: [
        'bin/farebox ledger trial-balance --as-of 2026-11-01',
        'bin/farebox ledger trial-balance --from 2026-10-01 --to 2026-11-01 --book service --format csv',
        'bin/farebox ledger trial-balance --as-of pos_0_1284 --depth 2',
      ],
    },
  },
  account: {
    name: 'account',
    takes: { account: true },
    command: {
      description: 'the balance of an account and its subaccounts, e.g. revenue or acc_… for a wallet',
      examples: [
        'bin/farebox ledger account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        'bin/farebox ledger account revenue --from 2026-10-01 --to 2026-11-01',
        'bin/farebox ledger account equity:funding --book reseller:acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      ],
    },
  },
  statement: {
    name: 'statement',
    takes: { account: true },
    command: {
      description: 'the lines of an account, oldest first, with the balance after each line',
      examples: [
        'bin/farebox ledger statement acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --from 2026-10-01 --to 2026-11-01',
        'bin/farebox ledger statement assets:gateway:manual --format csv',
      ],
    },
  },
  deferredRevenue: {
    name: 'deferred-revenue',
    takes: { moment: true },
    command: {
      summary: 'what was sold and not yet delivered, by product',
      description:
        'what was sold and not yet delivered at a moment, by product, from the log: revenue is booked at the sale. Rentals and plans of time count by the rest of their time, plans of traffic by their unused bytes',
      examples: [
        'bin/farebox ledger deferred-revenue --as-of 2026-11-01',
        'bin/farebox ledger deferred-revenue --format csv',
      ],
    },
  },
  manualEntries: {
    name: 'manual-entries',
    takes: {},
    command: {
      summary: 'every entry by hand: who, why, from which file',
      description:
        'every entry that a person made by hand, oldest first: when it was recorded, who made, proposed and approved it, why, from which file, and what it moved. These are credits, adjustments, refunds, fees and payouts from files, and their corrections',
      examples: [
        'bin/farebox ledger manual-entries --from 2026-10-01 --to 2026-11-01',
        'bin/farebox ledger manual-entries --from 2026-10-01 --format csv',
      ],
    },
  },
} as const satisfies Record<string, ReportForm>
