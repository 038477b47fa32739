import { InvalidArgumentError } from 'commander'
import { providers } from '../../domain/payments/payments.ts'
import { parsePosition, positionForm } from '../../kernel/log-position.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, defaulted, flag, oneOf, option, required, wholeNumber } from '../../platform/cli/input.ts'
import { bookForms, momentText, type TypedMoment } from '../finance/for-commands.ts'
import { referenceText } from '../wallet/for-commands.ts'
import {
  type ColumnRole,
  columnRoles,
  type LineKind,
  lineKinds,
  type Separator,
  separators,
} from './statement-words.ts'

const timeText = (text: string): TypedMoment => {
  const moment = momentText(text)
  if (moment.kind !== 'position') return moment
  throw new InvalidArgumentError(
    'A statement has no positions: it must be a date such as 2026-11-21 (its midnight in the accounting time zone), or an instant such as 2026-11-21T02:30:00Z.',
  )
}

/** Dollars with at most six decimals, as micro-dollars. */
const dollars = (text: string): bigint => {
  const match = /^(-?)(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text)
  if (!match) throw new InvalidArgumentError('It must be dollars such as 1250.00, without separators.')
  const [, sign, whole = '', fraction = ''] = match
  return BigInt(`${sign}${whole}${fraction.padEnd(6, '0')}`)
}

const splitPair = (text: string, form: string): readonly [string, string] => {
  const at = text.indexOf('=')
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError(`It must be ${form}.`)
  return [text.slice(0, at), text.slice(at + 1)]
}

type ColumnHeadings = Readonly<Partial<Record<ColumnRole, string>>>

const columnPair = (text: string, previous: ColumnHeadings): ColumnHeadings => {
  const [role, heading] = splitPair(text, 'ROLE=HEADING, e.g. amount=Gross')
  if (!columnRoles.includes(role as ColumnRole))
    throw new InvalidArgumentError(`A role is one of ${columnRoles.join(', ')}.`)
  return { ...previous, [role]: heading }
}

type WordKinds = Readonly<Record<string, LineKind>>

const wordPair = (text: string, previous: WordKinds): WordKinds => {
  const [word, kind] = splitPair(text, 'WORD=KIND, e.g. sale=payment')
  if (!lineKinds.includes(kind as LineKind))
    throw new InvalidArgumentError(`A kind is one of ${lineKinds.join(', ')}.`)
  return { ...previous, [word]: kind as LineKind }
}

export const reconcileInput = {
  gateway: required(
    '<name>',
    'the gateway in the books: stripe, btcpay, nowpayments, or crd_… of a reseller; bank: payouts that arrived, and payments received elsewhere',
  ),
  file: required(
    '<path>',
    'a statement as CSV; repeat it for more files, e.g. the payouts and the balance changes',
    (path: string, previous: readonly string[] | undefined) => [...(previous ?? []), path],
  ),
  from: option('<time>', 'only lines from this date or instant on', timeText),
  to: option('<time>', 'only lines before this date or instant', timeText),
  book: option('<name>', bookForms),
  provider: option('<name>', "the provider of the statements; default: the gateway's", oneOf(providers)),
  column: defaulted(
    '<role=heading>',
    `for any other CSV: the headings of ${columnRoles.join(', ')}`,
    {},
    columnPair,
  ),
  word: defaulted(
    '<word=kind>',
    `the meaning of a word in the column kind: ${lineKinds.join(', ')}`,
    {},
    wordPair,
  ),
  separator: defaulted(
    '<name>',
    'the separator of cells',
    'comma',
    oneOf(Object.keys(separators) as Separator[]),
  ),
  most: defaulted('<n>', 'list at most this many of each; all are counted', 100, wholeNumber(1, 100_000)),
  opening: option(
    '<amount>',
    "the statement's balance before its lines, in dollars such as 1250.00",
    dollars,
  ),
  closing: option('<amount>', "the statement's balance after its lines, in dollars", dollars),
  post: flag(
    'book fees and payouts, each once by its id at the provider, at the time in the statement while its month is not closed',
  ),
}

const entryText = (text: string): number => {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new InvalidArgumentError(`It must be ${positionForm}.`)
}

export const correctInput = {
  entry: argument(
    '<position>',
    'the entry of the fee or the payout, as "finance reconcile" shows it',
    entryText,
  ),
  fee: option('<amount>', 'the right fee in dollars such as 1.02; 0: there is none', dollars),
  payout: option('<amount>', 'the right payout in dollars; 0: there is none', dollars),
  reason: required('<text>', 'why; stored in the log permanently: name no person', referenceText),
}

export const commands = [
  command({
    name: 'finance reconcile',
    about: 'compare the statements of a payment provider with the books; exit code 1 on any difference',
    input: reconcileInput,
    examples: [
      'bin/farebox finance reconcile --gateway stripe --file balance.csv --file payouts.csv --from 2026-11-01 --to 2026-12-01',
      'bin/farebox finance reconcile --gateway stripe --file balance.csv --file payouts.csv --post',
      'bin/farebox finance reconcile --gateway bank --file bank.csv --column at=Date --column amount=Amount',
      'bin/farebox finance reconcile --gateway btcpay --file invoices.csv --json',
      'bin/farebox finance reconcile --gateway stripe --file balance.csv --file payouts.csv --from 2026-11-01 --to 2026-12-01 --opening 120.50 --closing 310.00',
    ],
    run: async () => (await import('./run-commands.ts')).reconcileStatements,
  }),
  command({
    name: 'finance correct',
    about: 'correct a fee or a payout that was booked from a wrong statement: the difference is booked',
    input: correctInput,
    check: ({ fee, payout }) =>
      fee === undefined && payout === undefined ? 'give the right --fee, --payout or both' : null,
    examples: [
      'bin/farebox finance correct pos_0_1284 --fee 1.02 --reason "the file had 9.99"',
      'bin/farebox finance correct pos_0_1284 --fee 0 --payout 0 --reason "on no statement"',
    ],
    run: async () => (await import('./run-commands.ts')).correctLine,
  }),
]
