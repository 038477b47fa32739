import { pluralize } from '../../kernel/formats.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import {
  type ClassSum,
  type Difference,
  type DifferenceClass,
  differenceClasses,
  type OtherTime,
  type OwnLine,
} from './compare.ts'
import type { Reconciliation } from './reconcile.ts'

/** The inputs of a reconciliation, and the account's own figures of the same period. */
export type ReconciliationScope = {
  readonly gateway: string
  readonly book: string
  readonly account: string
  readonly accounts: readonly string[]
  readonly from: string | null
  readonly before: string | null
  readonly head: number
  readonly openingMicros: bigint
  readonly closingMicros: bigint
  /** The balances of the statement; null: not given. */
  readonly statement: { readonly openingMicros: bigint | null; readonly closingMicros: bigint | null }
}

const classLabels: Readonly<Record<DifferenceClass | 'matched' | 'own' | 'open' | 'outside', string>> = {
  matched: 'matched',
  own: "the provider's own",
  open: 'not final there',
  outside: 'outside the time',
  missing_here: 'missing here',
  missing_there: 'missing there',
  not_final: 'booked, not final there',
  other_amount: 'other amount',
  not_booked: 'not booked',
  other_fee: 'other fee or payout',
  other_time: 'other time',
  duplicate: 'duplicate',
  other_currency: 'other currency',
}

type Balances = Pick<ReconciliationScope, 'statement'>

/** The balances of the statement against its lines and the books. Null: they were not given. */
const balanceOf = ({ statement }: Balances, { rowsMicros, balancesHere }: Reconciliation) => {
  const { openingMicros, closingMicros } = statement
  return {
    rowsMicros,
    openingHereMicros: balancesHere.openingMicros,
    hereMicros: balancesHere.closingMicros,
    /** What the opening balance has more than the books. */
    openingDifferenceMicros: openingMicros === null ? null : openingMicros - balancesHere.openingMicros,
    /** What the closing balance has more than the opening balance and the lines. */
    missingRowsMicros:
      openingMicros === null || closingMicros === null ? null : closingMicros - openingMicros - rowsMicros,
    /** What the closing balance has more than the books. */
    differenceMicros: closingMicros === null ? null : closingMicros - balancesHere.closingMicros,
  }
}

/** Whether there is no difference. What was not given was not compared: `uncheckedOf`. */
export const agrees = (balances: Balances, result: Reconciliation): boolean => {
  const { missingRowsMicros, openingDifferenceMicros, differenceMicros } = balanceOf(balances, result)
  return (
    differenceClasses.every((each) => result.counts[each] === 0) &&
    (missingRowsMicros ?? 0n) === 0n &&
    (openingDifferenceMicros ?? 0n) === 0n &&
    (differenceMicros ?? 0n) === 0n
  )
}

/** What could not be compared. */
const uncheckedOf = ({ statement }: Balances, { uncovered }: Reconciliation) => [
  ...uncovered,
  ...(statement.openingMicros === null ? (['opening_balance'] as const) : []),
  ...(statement.closingMicros === null ? (['closing_balance'] as const) : []),
]

const uncheckedTexts: Readonly<Record<ReturnType<typeof uncheckedOf>[number], string>> = {
  payments: 'payments, which no file has',
  fees: 'fees, which no file has or a reseller does not book',
  payouts: 'payouts, which no file has or a reseller does not book',
  opening_balance: 'the opening balance: give --opening',
  closing_balance: 'the closing balance: give --closing',
}

/** The account's movement in the books by these statements: matched entries and posted lines. */
const bookedMicros = ({ sums, postable }: Reconciliation): bigint =>
  sums.reduce((sum, { hereMicros }) => sum + hereMicros, postable.postedMicros)

const uncounted: readonly string[] = ['outside', 'duplicate', 'open', 'not_final']
const isCounted = ({ class: name }: ClassSum): boolean => !uncounted.includes(name)

/** The statement's fees, payouts and total balance change, by currency. */
const totalsThere = (sums: readonly ClassSum[]) => {
  const byCurrency = Map.groupBy(sums.filter(isCounted), ({ currency }) => currency)
  return [...byCurrency].map(([currency, currencySums]) => {
    const sumOf = (isIncluded: (sum: ClassSum) => boolean, micros: (sum: ClassSum) => bigint): bigint =>
      currencySums.filter(isIncluded).reduce((total, sum) => total + micros(sum), 0n)
    const anySum = (): boolean => true
    const feeMicros =
      sumOf(anySum, (sum) => sum.feeMicros) -
      sumOf(
        ({ kind }) => kind === 'fee',
        (sum) => sum.amountMicros,
      )
    const payoutMicros = -sumOf(
      ({ kind }) => kind === 'payout' || kind === 'payout_reversal',
      (sum) => sum.amountMicros,
    )
    const netMicros = sumOf(anySum, (sum) => sum.amountMicros - sum.feeMicros)
    return { currency, feeMicros, payoutMicros, netMicros }
  })
}

const asText = (micros: bigint | null): string | null => (micros === null ? null : String(micros))

const balanceJson = (scope: Balances, result: Reconciliation) => {
  const { rowsMicros, openingHereMicros, hereMicros, ...differences } = balanceOf(scope, result)
  const { missingRowsMicros, openingDifferenceMicros, differenceMicros } = differences
  return {
    openingMicros: asText(scope.statement.openingMicros),
    openingHereMicros: String(openingHereMicros),
    openingDifferenceMicros: asText(openingDifferenceMicros),
    rowsMicros: String(rowsMicros),
    closingMicros: asText(scope.statement.closingMicros),
    missingRowsMicros: asText(missingRowsMicros),
    hereMicros: String(hereMicros),
    differenceMicros: asText(differenceMicros),
  }
}

const postedJson = (posted: Reconciliation['posted']) => {
  if (posted === null) return null
  if (posted.outcome === 'booked') return { booked: posted.lines, proposalId: null }
  return { booked: 0, proposalId: posted.proposal.proposalId }
}

export const reconciliationJson = (scope: ReconciliationScope, result: Reconciliation) => ({
  gateway: scope.gateway,
  book: scope.book,
  account: scope.account,
  from: scope.from,
  to: scope.before,
  position: positionToken(scope.head),
  currency: 'USD',
  agrees: agrees(scope, result),
  unchecked: uncheckedOf(scope, result),
  balance: balanceJson(scope, result),
  files: result.files,
  counts: result.counts,
  sums: result.sums.map(({ amountMicros, feeMicros, hereMicros, ...sum }) => ({
    ...sum,
    thereMicros: String(amountMicros),
    feeMicros: String(feeMicros),
    hereMicros: String(hereMicros),
  })),
  missingThere: {
    entries: result.missingThere.entries,
    hereMicros: String(result.missingThere.hereMicros),
  },
  totals: totalsThere(result.sums).map(({ currency, feeMicros, payoutMicros, netMicros }) => ({
    currency,
    feeMicros: String(feeMicros),
    payoutMicros: String(payoutMicros),
    netMicros: String(netMicros),
  })),
  coins: result.coins,
  bookedMicros: String(bookedMicros(result)),
  posting: {
    lines: result.postable.lines,
    feeMicros: String(result.postable.feeMicros),
    payoutMicros: String(result.postable.payoutMicros),
    inTheBooks: result.postable.posted,
    atOtherTimes: result.otherTimes.count,
    atOtherTimesMicros: String(result.otherTimes.micros),
    unmatchedFees: result.postable.unmatched,
    unmatchedFeesMicros: String(result.postable.unmatchedMicros),
    now: postedJson(result.posted),
  },
  accountBalance: {
    openingMicros: String(scope.openingMicros),
    movedMicros: String(scope.closingMicros - scope.openingMicros),
    closingMicros: String(scope.closingMicros),
  },
  differences: result.differences.map(({ thereMicros, hereMicros, position, ...difference }) => ({
    ...difference,
    position: position === null ? null : positionToken(position),
    thereMicros: asText(thereMicros),
    hereMicros: asText(hereMicros),
  })),
  otherTimes: result.otherTimes.lines.map(({ position, amountMicros, ...line }) => ({
    ...line,
    position: positionToken(position),
    amountMicros: String(amountMicros),
  })),
  own: result.own.map(({ amountMicros, feeMicros, ...line }) => ({
    ...line,
    amountMicros: String(amountMicros),
    feeMicros: String(feeMicros),
  })),
})

type Writer = (micros: bigint) => string

const order: readonly ClassSum['class'][] = [
  'matched',
  'own',
  'open',
  'outside',
  'missing_here',
  'not_final',
  'other_amount',
  'duplicate',
  'other_currency',
]

const sumRows = ({ sums, missingThere }: Reconciliation, write: Writer) => [
  ...sums
    .toSorted((a, b) => order.indexOf(a.class) - order.indexOf(b.class))
    .map((sum) => ({
      what: classLabels[sum.class],
      kind: sum.kind.replaceAll('_', ' '),
      currency: sum.currency.toUpperCase(),
      lines: sum.lines,
      there: write(sum.amountMicros),
      fees: write(sum.feeMicros),
      here: ['matched', 'not_final', 'other_amount'].includes(sum.class) ? write(sum.hereMicros) : '-',
    })),
  ...(missingThere.entries === 0
    ? []
    : [
        {
          what: classLabels.missing_there,
          kind: '-',
          currency: 'USD',
          lines: missingThere.entries,
          there: '-',
          fees: '-',
          here: write(missingThere.hereMicros),
        },
      ]),
]

const sumsText = (result: Reconciliation, write: Writer): string =>
  table(
    sumRows(result, write),
    {
      what: 'what',
      kind: 'kind',
      currency: 'currency',
      lines: 'lines',
      there: 'there',
      fees: 'fees',
      here: 'here',
    },
    'no line and no entry in this time',
  )

const orDash = (micros: bigint | null, write: Writer): string => (micros === null ? '-' : write(micros))

const differencesText = (differences: readonly Difference[], write: Writer): string =>
  table(differences, {
    what: (each) => classLabels[each.class],
    kind: ({ kind }) => kind?.replaceAll('_', ' '),
    there: ({ thereMicros }) => orDash(thereMicros, write),
    here: ({ hereMicros }) => orDash(hereMicros, write),
    currency: ({ currency }) => (currency ?? 'usd').toUpperCase(),
    at: ({ class: name, thereAt, hereAt }) =>
      name === 'other_time' ? `${thereAt}, here ${hereAt}` : (thereAt ?? hereAt),
    'id there': 'externalId',
    line: ({ file, line }) => (file === null ? '-' : `${file}:${line}`),
    'entry here': ({ position, depositId, reference }) =>
      position === null ? '-' : `${positionToken(position)} ${depositId ?? reference ?? ''}`.trimEnd(),
  })

const ownLinesText = (own: readonly OwnLine[], write: Writer): string =>
  table(own, {
    kind: ({ kind }) => kind.replaceAll('_', ' '),
    word: 'word',
    amount: ({ amountMicros }) => write(amountMicros),
    fee: ({ feeMicros }) => write(feeMicros),
    currency: ({ currency }) => currency.toUpperCase(),
    at: 'at',
    'id there': 'externalId',
    line: ({ file, line }) => `${file}:${line}`,
  })

const whyTexts: Readonly<Record<OtherTime['why'], string>> = {
  month_closed: 'its month is closed',
  in_future: 'it was in the future',
  before_log: 'before the first event of the log',
}

const otherTimesText = (
  { otherTimes: { count, micros, lines } }: Reconciliation,
  write: Writer,
): readonly string[] =>
  count === 0
    ? []
    : [
        '',
        `${pluralize(count, 'entry', 'entries')} of fees and payouts not dated by the statement, but at the posting: ${write(micros)}`,
        '',
        `${table(lines, {
          amount: ({ amountMicros }) => write(amountMicros),
          'at there': 'thereAt',
          'booked in': 'month',
          'booked at': 'hereAt',
          why: ({ why }) => whyTexts[why],
          'id there': 'reference',
          'entry here': ({ position }) => positionToken(position),
        })}${more(lines.length, count)}`,
      ]

const allAmounts = (scope: ReconciliationScope, result: Reconciliation): readonly bigint[] => [
  scope.openingMicros,
  scope.closingMicros,
  bookedMicros(result),
  ...Object.values(result.balancesHere),
  result.postable.unmatchedMicros,
  result.otherTimes.micros,
  ...result.otherTimes.lines.map(({ amountMicros }) => amountMicros),
  ...Object.values(scope.statement).flatMap((micros) => micros ?? []),
  result.missingThere.hereMicros,
  ...result.sums.flatMap(({ amountMicros, feeMicros, hereMicros }) => [amountMicros, feeMicros, hereMicros]),
  ...result.differences.flatMap(({ thereMicros, hereMicros }) => [thereMicros ?? 0n, hereMicros ?? 0n]),
  ...result.own.flatMap(({ amountMicros, feeMicros }) => [amountMicros, feeMicros]),
]

const more = (listedCount: number, totalCount: number): string =>
  listedCount < totalCount ? `\n${totalCount - listedCount} more; --most lists more` : ''

const postingText = ({ postable, posted }: Reconciliation, write: Writer): readonly string[] => {
  const { lines, posted: before, unmatched } = postable
  const now = posted?.outcome === 'booked' ? `, ${posted.lines} of them booked now` : ''
  return [
    ...(lines === 0
      ? []
      : [`fees and payouts: ${pluralize(lines, 'line')} to book, ${before} in the books${now}`]),
    ...(posted === null || posted.outcome === 'booked'
      ? []
      : [
          `nothing is booked: above the limit of one operator, proposed as ${posted.proposal.proposalId} of ${posted.proposal.by}; another operator runs "proposals approve ${posted.proposal.proposalId}"`,
        ]),
    ...(unmatched === 0
      ? []
      : [
          `fees of ${pluralize(unmatched, 'line')} that match no payment are not booked: ${write(postable.unmatchedMicros)}`,
        ]),
  ]
}

const balanceText = (
  scope: ReconciliationScope,
  result: Reconciliation,
  write: Writer,
): readonly string[] => {
  const { openingMicros, closingMicros } = scope.statement
  const { rowsMicros, openingHereMicros, hereMicros, ...differences } = balanceOf(scope, result)
  const { missingRowsMicros, openingDifferenceMicros, differenceMicros } = differences
  const compared = (
    name: string,
    thereMicros: bigint | null,
    booksMicros: bigint,
    moreMicros: bigint | null,
  ): readonly string[] =>
    thereMicros === null || moreMicros === null
      ? []
      : [
          `the ${name} balance: ${write(thereMicros)} there, ${write(booksMicros)} here by the dates of the statement${moreMicros === 0n ? '' : `, a difference of ${write(moreMicros)}`}`,
        ]
  return [
    ...(missingRowsMicros === null || openingMicros === null || closingMicros === null
      ? []
      : [
          `the statement: ${write(openingMicros)} opening, ${write(rowsMicros)} lines, ${write(closingMicros)} closing${missingRowsMicros === 0n ? '' : `; its lines lack ${write(missingRowsMicros)}`}`,
        ]),
    ...compared('opening', openingMicros, openingHereMicros, openingDifferenceMicros),
    ...compared('closing', closingMicros, hereMicros, differenceMicros),
  ]
}

const outcomeText = (scope: ReconciliationScope, result: Reconciliation): readonly string[] => {
  const unchecked = uncheckedOf(scope, result)
  const outcome = agrees(scope, result)
    ? `everything ${unchecked.length === 0 ? '' : 'that was compared '}agrees`
    : 'the balances differ'
  return [
    ...(differenceClasses.every((each) => result.counts[each] === 0) ? [outcome] : []),
    ...(unchecked.length === 0
      ? []
      : [`not compared: ${unchecked.map((each) => uncheckedTexts[each]).join('; ')}`]),
  ]
}

export const reconciliationText = (scope: ReconciliationScope, result: Reconciliation): string => {
  const write = amountWriter(allAmounts(scope, result))
  const { accounts, book, from, before, openingMicros, closingMicros } = scope
  const time = from === null && before === null ? '' : `, from ${from ?? 'the start'} to ${before ?? 'now'}`
  const totalCount = differenceClasses.reduce((count, each) => count + result.counts[each], 0)
  const ownLines = result.sums
    .filter((sum) => sum.class === 'own')
    .reduce((count, { lines }) => count + lines, 0)
  const totals = totalsThere(result.sums).map(
    ({ currency, feeMicros, payoutMicros, netMicros }) =>
      `there ${currency.toUpperCase()}: fees ${write(feeMicros)}, paid out ${write(payoutMicros)}, the balance moved by ${write(netMicros)}`,
  )
  return [
    `${accounts.join(' and ')} in the book ${book}${time}, US dollars`,
    ...result.files.map(({ file, report, lines }) => `${file}: ${report}, ${pluralize(lines, 'line')}`),
    '',
    sumsText(result, write),
    '',
    ...totals,
    ...result.coins.map(
      ({ currency, lines, amount }) =>
        `there ${currency.toUpperCase()}: ${amount} in ${pluralize(lines, 'payment')}`,
    ),
    `of these lines the books have USD: ${write(bookedMicros(result))}`,
    ...postingText(result, write),
    `the account here, in this time: ${write(openingMicros)} before, moved by ${write(closingMicros - openingMicros)}, ${write(closingMicros)} after`,
    ...balanceText(scope, result, write),
    ...(result.own.length === 0
      ? []
      : ['', `${ownLinesText(result.own, write)}${more(result.own.length, ownLines)}`]),
    ...otherTimesText(result, write),
    '',
    ...(totalCount === 0
      ? []
      : [
          `${differencesText(result.differences, write)}${more(result.differences.length, totalCount)}`,
          '',
          [
            pluralize(totalCount, 'difference'),
            ...(result.counts.not_booked === 0 ? [] : ['--post books a fee or a payout']),
            ...(result.counts.other_fee + result.counts.missing_there === 0
              ? []
              : ['"finance correct" corrects a fee or a payout']),
          ].join('; '),
        ]),
    ...outcomeText(scope, result),
  ].join('\n')
}
