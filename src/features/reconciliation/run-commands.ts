import { createReadStream } from 'node:fs'
import { isStatementLine } from '../../domain/finance/entries.ts'
import { approvalLimitAt, approvalLimitsRef } from '../../domain/ledger/approvals.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import { bankAccount, elsewhereAccount, gatewayAccount } from '../../domain/ledger/postings.ts'
import type { StatementBooking } from '../../domain/ledger/statement-lines.ts'
import { providers } from '../../domain/payments/payments.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter, centsToMicros } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, notFound } from '../../platform/cli/output.ts'
import { withProgress } from '../../platform/cli/progress-bar.ts'
import { readState } from '../../platform/commands/command.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import {
  catchUpBooks,
  isReversedRange,
  momentOf,
  momentWork,
  openReader,
  readGatewayNames,
  type TypedMoment,
} from '../finance/index.ts'
import {
  approvalNeeded,
  bookStatementLines,
  correctStatementLine,
  proposeStatement,
} from '../wallet/index.ts'
import { btcpay } from './btcpay-statement.ts'
import type { correctInput, reconcileInput } from './commands.ts'
import { nowpayments } from './nowpayments-statement.ts'
import { type PostLines, reconcile, type StatementFile, StatementRefused } from './reconcile.ts'
import { agrees, reconciliationJson, reconciliationText } from './reconcile-report.ts'
import { declaredFormat, missingOf, type StatementFormat } from './statement-format.ts'
import { separators } from './statement-words.ts'
import { stripe } from './stripe-statement.ts'

const formats: readonly StatementFormat[] = [stripe, btcpay, nowpayments]

type ReconcileInput = InputOf<typeof reconcileInput>

/** The length of a proposal, characters: an event of the log has at most 1 MiB. A line has over 200. */
const maxProposalLength = 900_000
const maxProposalLines = maxProposalLength / 200

type GatewayAccount = {
  readonly book: string
  readonly account: string
  readonly accounts: readonly string[]
}

/** The name of the bank in place of a gateway: payouts arrive there, and payments that were received elsewhere. */
const bank = 'bank'

/** The account of a gateway, in the given book or in the only book that has it. */
const findGateway = async (db: Db, { gateway, book }: ReconcileInput): Promise<GatewayAccount> => {
  if (gateway === bank)
    return { book: serviceBook, account: bankAccount, accounts: [bankAccount, elsewhereAccount] }
  const prefix = gatewayAccount('')
  const rows = await db
    .selectFrom('read.journal_accounts')
    .select(['book', 'account'])
    .where('account', '>=', prefix)
    .where('account', '<', `${prefix.slice(0, -1)};`)
    .orderBy('book')
    .orderBy('account')
    .execute()
  const named = rows.filter((each) => each.account === gatewayAccount(gateway))
  const found = named.filter((each) => book === undefined || each.book === book)
  const [first] = found
  if (first !== undefined && found.length === 1) return { ...first, accounts: [first.account] }
  const known = rows.slice(0, 20).map((each) => `${each.account.slice(prefix.length)} (${each.book})`)
  const knownText = known.length === 0 ? 'no gateway has any' : `gateways with money: ${known.join(', ')}`
  throw new CliMisuse(
    found.length > 1
      ? `several books have the gateway ${gateway}: name one with --book, e.g. ${found[0]?.book}`
      : `the gateway ${gateway}${book === undefined ? '' : ` of the book ${book}`} has no money booked; ${knownText}`,
    {},
    found.length > 1 ? 'invalid_parameter' : 'not_found',
  )
}

/** The format of the declared columns; null: none are declared. */
const declaredFormatOf = ({
  column: columns,
  word: words,
  gateway,
}: ReconcileInput): StatementFormat | null => {
  if (Object.keys(columns).length + Object.keys(words).length === 0) return null
  const declared = { columns, words }
  const missingRole = missingOf(declared, gateway === bank)
  if (missingRole !== null) throw new CliMisuse(`${missingRole}; --column ROLE=HEADING declares one`)
  return declaredFormat(declared)
}

const formatOf = async (
  { log }: CliContext,
  options: ReconcileInput,
  found: GatewayAccount,
): Promise<StatementFormat> => {
  const declared = declaredFormatOf(options)
  if (options.gateway === bank) {
    if (declared) return declared
    throw new CliMisuse('declare the columns of the statement of the bank with --column ROLE=HEADING')
  }
  const named = (await readGatewayNames(log, [found]))(found.account)?.split(' ')[0]
  const provider = options.provider ?? named ?? options.gateway
  const format = formats.find((each) => each.provider === provider)
  // Declared columns are for the files that are no report of the provider, such as a list of its refunds.
  if (format && declared) return { ...format, layouts: [...format.layouts, ...declared.layouts] }
  if (format) return format
  if (declared) return declared
  throw new CliMisuse(
    `${options.gateway} is not a supported provider: name one with --provider (${providers.join(', ')}), or declare the columns of its CSV with --column ROLE=HEADING`,
  )
}

const chunksOf = async function* (file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file)
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`)
  }
}

const instantOf = (typed: TypedMoment | undefined, calendar: Calendar): string | null => {
  const moment = typed && momentOf(typed, calendar)
  return moment?.kind === 'time' ? isoTime(moment.atMs) : null
}

/** Posts to the service's book. @throws CliMisuse if posting is not possible */
const linePoster = (
  context: CliContext,
  { gateway, column }: ReconcileInput,
  { book }: GatewayAccount,
): PostLines => {
  if (gateway === bank)
    throw new CliMisuse(
      '--post books the statements of payment providers: those have the payouts to the bank',
    )
  if (book !== serviceBook)
    throw new CliMisuse(
      `--post books fees and payouts of the service's own gateways; ${gateway} is a gateway of the book ${book}`,
    )
  if (Object.keys(column).length > 0 && column.id === undefined)
    throw new CliMisuse(
      '--post books a line once by its id: declare the column id; --column ROLE=HEADING declares one',
    )
  const { runner, clock } = context
  const bookAll = async (lines: AsyncIterable<StatementBooking> | Iterable<StatementBooking>) => {
    const booked = await bookStatementLines(runner, lines, context)
    const head = await withProgress((bar) => catchUpBooks({ ...context, decode: createCodec().decode }, bar))
    return { outcome: 'booked', lines: booked, head } as const
  }
  return async ({ count, sizeMicros, lines }) => {
    const limits = await readState(runner, { ...context, name: 'read-limit' }, approvalLimitsRef)
    const limitCents = approvalLimitAt(limits, clock())
    const isAllowed = limitCents === null || sizeMicros <= centsToMicros(limitCents)
    if (isAllowed && (count === 0 || count > maxProposalLines)) return bookAll(lines)
    const bookings: StatementBooking[] = []
    for await (const line of lines) bookings.push(line)
    const statement = {
      kind: 'statement',
      gateway,
      lines: bookings.map(({ gateway: _, proposalId: __, ...line }) => line),
    } as const
    if (JSON.stringify(statement).length > maxProposalLength) {
      if (isAllowed) return bookAll(bookings)
      throw new CliMisuse(
        `${count} lines are too many for one proposal: post them in parts, with --from and --to`,
      )
    }
    const answer = await proposeStatement(runner, statement, context)
    if (answer.outcome === 'not_proposed') throw approvalNeeded(answer)
    return answer.outcome === 'allowed' ? bookAll(bookings) : answer
  }
}

/** Corrects a fee or a payout that was booked with a wrong amount. */
export const correctLine = async (
  context: CliContext,
  { entry: position, fee, payout, reason }: InputOf<typeof correctInput>,
): Promise<CliOutput> => {
  const stored = await context.log.eventAt(position)
  const event = stored && context.codec.decode(stored)
  if (event === null || !isStatementLine(event))
    throw notFound(`no fee and no payout is booked at ${positionToken(position)}`)
  const { gateway, reference } = event.data
  const microsOf = (amount: bigint | undefined) => (amount === undefined ? undefined : Number(amount))
  const correction = { feeMicros: microsOf(fee), payoutMicros: microsOf(payout), reason }
  const answer = await correctStatementLine(context.runner, event.data, correction, context)
  if (answer.outcome !== 'corrected') throw approvalNeeded(answer)
  const { change } = answer
  const write = (micros: number): string => amountWriter([BigInt(micros)])(BigInt(micros))
  const { feeMicros = 0, payoutMicros = 0 } = change ?? {}
  return {
    json: { gateway, reference, changed: change !== null, feeMicros, payoutMicros },
    text:
      change === null
        ? 'unchanged'
        : `corrected ${reference} of ${gateway}: the fee by ${write(feeMicros)}, the payout by ${write(payoutMicros)}`,
  }
}

export const reconcileStatements = momentWork(
  async (context: CliContext, options: ReconcileInput): Promise<CliOutput> => {
    const { gateway, from, to, most } = options
    if (isReversedRange(options)) throw new CliMisuse('--from must not be after --to')
    const { head, reader } = await openReader(context)
    const found = await findGateway(context.db, options)
    const format = await formatOf(context, options, found)
    const files = options.file.map((name): StatementFile => ({ name, chunks: () => chunksOf(name) }))
    const post = options.post === true ? linePoster(context, options, found) : null
    const span = await reader.spanOf({ from, to }, head)
    const time = { from: instantOf(from, context.calendar), before: instantOf(to, context.calendar) }
    const range = { after: span.after, to: span.position }
    const statement = { openingMicros: options.opening ?? null, closingMicros: options.closing ?? null }
    const readOptions = { format, separator: separators[options.separator] }
    const zone = context.calendar.zone
    const isBank = gateway === bank
    const isPosted = !isBank && found.book === serviceBook
    const comparisonScope = { ...found, isBank, isPosted, ...time, range, head, zone }
    const result = await reconcile(context.pool, files, readOptions, comparisonScope, {
      gateway,
      most,
      post,
    }).catch((error) => {
      throw error instanceof StatementRefused ? new CliMisuse(error.message) : error
    })
    let [openingMicros, closingHereMicros] = [0n, 0n]
    for (const account of found.accounts) {
      const filter = { book: found.book, account, below: false }
      const { totals } = await reader.totals({ from, to }, result.head, filter)
      openingMicros += totals.openingMicros
      closingHereMicros += totals.openingMicros + totals.debitMicros - totals.creditMicros
    }
    const reportScope = {
      gateway,
      ...found,
      ...time,
      head: result.head,
      openingMicros,
      closingMicros: closingHereMicros,
      statement,
    }
    return {
      json: reconciliationJson(reportScope, result),
      text: reconciliationText(reportScope, result),
      failed: !agrees(reportScope, result) || (result.posted !== null && result.posted.outcome !== 'booked'),
    }
  },
)
