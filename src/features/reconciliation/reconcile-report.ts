import { pluralize } from '../../kernel/formats.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import {
  type ClassSum,
  type Difference,
  type DifferenceClass,
  differenceClasses,
  type OwnLine,
} from './compare.ts'
import type { Reconciliation } from './reconcile.ts'

/** The inputs of a reconciliation, and the account's own figures of the same period. */
export type ReconciliationScope = {
  readonly gateway: string
  readonly book: string
  readonly account: string
  readonly from: string | null
  readonly before: string | null
  readonly head: number
  readonly openingMicros: bigint
  readonly closingMicros: bigint
}

const classLabels: Readonly<Record<DifferenceClass | 'matched' | 'own' | 'open' | 'outside', string>> = {
  matched: 'matched',
  own: "the provider's own",
  open: 'under way there',
  outside: 'outside the time',
  missing_here: 'missing here',
  missing_there: 'missing there',
  not_final: 'booked, not final there',
  other_amount: 'other amount',
  duplicate: 'duplicate',
  other_currency: 'other currency',
}

/** Whether there is no difference. */
export const agrees = ({ counts, postable }: Reconciliation): boolean =>
  differenceClasses.every((each) => counts[each] === 0) && postable.otherwise === 0

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

export const reconciliationJson = (scope: ReconciliationScope, result: Reconciliation) => ({
  gateway: scope.gateway,
  book: scope.book,
  account: scope.account,
  from: scope.from,
  to: scope.before,
  position: positionToken(scope.head),
  currency: 'USD',
  agrees: agrees(result),
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
    otherwise: result.postable.otherwise,
    now: result.posted,
  },
  float: {
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
    at: ({ thereAt, hereAt }) => thereAt ?? hereAt,
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

const allAmounts = (scope: ReconciliationScope, result: Reconciliation): readonly bigint[] => [
  scope.openingMicros,
  scope.closingMicros,
  bookedMicros(result),
  result.missingThere.hereMicros,
  ...result.sums.flatMap(({ amountMicros, feeMicros, hereMicros }) => [amountMicros, feeMicros, hereMicros]),
  ...result.differences.flatMap(({ thereMicros, hereMicros }) => [thereMicros ?? 0n, hereMicros ?? 0n]),
  ...result.own.flatMap(({ amountMicros, feeMicros }) => [amountMicros, feeMicros]),
]

const more = (listedCount: number, totalCount: number): string =>
  listedCount < totalCount ? `\n${totalCount - listedCount} more; --most lists more` : ''

const postingText = ({ postable, posted }: Reconciliation): readonly string[] => {
  const { lines, posted: before, otherwise } = postable
  if (lines === 0) return []
  const now = posted === null ? '' : `, ${posted.booked} of them booked now`
  const rest = before < lines && posted === null ? '; --post books the rest' : ''
  return [
    `fees and payouts: ${pluralize(lines, 'line')} to book, ${before} in the books${now}${rest}`,
    ...(otherwise === 0
      ? []
      : [`${pluralize(otherwise, 'line')} of them stand in the books with another amount`]),
  ]
}

export const reconciliationText = (scope: ReconciliationScope, result: Reconciliation): string => {
  const write = amountWriter(allAmounts(scope, result))
  const { account, book, from, before, openingMicros, closingMicros } = scope
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
    `${account} in the book ${book}${time}, US dollars`,
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
    ...postingText(result),
    `the account here, in this time: ${write(openingMicros)} before, moved by ${write(closingMicros - openingMicros)}, ${write(closingMicros)} after`,
    ...(result.own.length === 0
      ? []
      : ['', `${ownLinesText(result.own, write)}${more(result.own.length, ownLines)}`]),
    '',
    ...(totalCount === 0
      ? [agrees(result) ? 'everything agrees' : 'everything agrees but what was booked of fees and payouts']
      : [
          `${differencesText(result.differences, write)}${more(result.differences.length, totalCount)}`,
          '',
          `${pluralize(totalCount, 'difference')}`,
        ]),
  ].join('\n')
}
