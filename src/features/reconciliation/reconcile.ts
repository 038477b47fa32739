import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import type pg from 'pg'
import type { ProposedAnswer } from '../../domain/ledger/decide-approval.ts'
import type { StatementBooking } from '../../domain/ledger/statement-lines.ts'
import { openSession } from '../../platform/postgres/postgres-session.ts'
import {
  type ClassSum,
  type ComparisonScope,
  createComparison,
  type Difference,
  type DifferenceClass,
  differenceClasses,
  type OtherTime,
  type OwnLine,
  type Postable,
} from './compare.ts'
import { cellsOf, csvRecords, FileProblem, headingKey } from './csv-cells.ts'
import {
  type Coverage,
  coverages,
  declaredColumns,
  type Layout,
  type StatementFormat,
  type StatementLine,
} from './statement-format.ts'

/** Lines to book that the books do not have yet. */
export type NewLines = {
  readonly count: number
  /** The sum of their fees and payouts, without signs. */
  readonly sizeMicros: bigint
  readonly lines: AsyncIterable<StatementBooking>
}

/** The lines were booked, and the journal has them up to `head`; or they wait for the approval of another operator. */
export type PostAnswer =
  | { readonly outcome: 'booked'; readonly lines: number; readonly head: number }
  | ProposedAnswer
export type PostLines = (lines: NewLines) => Promise<PostAnswer>

const namesOf = (column: string | readonly string[]): readonly string[] =>
  typeof column === 'string' ? [column] : column

const missingIn = (hasColumn: (name: string) => boolean, { columns }: Layout): readonly string[] =>
  columns.filter((column) => !namesOf(column).some(hasColumn)).map((column) => namesOf(column).join(' or '))

/** The problem that no report of the provider matches this heading: the missing columns of each report. */
const layoutProblem = (
  line: number,
  { provider, layouts }: StatementFormat,
  hasColumn: (name: string) => boolean,
): FileProblem => {
  const wanted = layouts.map((layout) => `"${layout.name}" lacks ${missingIn(hasColumn, layout).join(', ')}`)
  return new FileProblem(
    line,
    `this is the heading of no report of ${provider} that is read: ${wanted.join('; ')}`,
  )
}

/** A file of a provider: the report that its heading identifies, and a stream of its lines. */
export type OpenedStatement = { readonly layout: Layout; readonly lines: AsyncGenerator<StatementLine> }

/**
 * Opens a statement and reads only its heading.
 * @throws FileProblem here and while the lines are read
 */
export const openStatement = async (
  chunks: AsyncIterable<Uint8Array>,
  format: StatementFormat,
  separator: string,
): Promise<OpenedStatement> => {
  const records = csvRecords(chunks, separator)
  const first = await records.next()
  if (first.done) throw new FileProblem(1, 'the file is empty; its first line names the columns')
  const columns = new Map<string, number>()
  const duplicates = new Set<string>()
  for (const [at, heading] of first.value.cells.entries()) {
    const key = headingKey(heading)
    if (key !== '' && columns.has(key)) duplicates.add(key)
    if (key !== '') columns.set(key, at)
  }
  const hasColumn = (name: string): boolean => columns.has(headingKey(name))
  const layout = format.layouts.find((each) => missingIn(hasColumn, each).length === 0)
  if (!layout) throw layoutProblem(first.value.line, format, hasColumn)
  const duplicateColumn = layout.columns.flatMap(namesOf).find((name) => duplicates.has(headingKey(name)))
  if (duplicateColumn !== undefined)
    throw new FileProblem(first.value.line, 'the heading has it twice', duplicateColumn)
  const width = first.value.cells.length
  const lines = async function* (): AsyncGenerator<StatementLine> {
    const read = layout.start()
    for await (const record of records) {
      if (record.cells.length !== width)
        throw new FileProblem(record.line, `${record.cells.length} cells, where the heading has ${width}`)
      const line = read(cellsOf(columns, record))
      if (line) yield line
    }
  }
  return { layout, lines: lines() }
}

/** A statement to read: its name for messages, and its bytes. */
export type StatementFile = { readonly name: string; readonly chunks: () => AsyncIterable<Uint8Array> }

/** The file is no statement of the provider, or two files are different reports of the same data. */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused'
}

export type ReadFile = {
  readonly file: string
  /** Lower-case hex. */
  readonly sha256: string
  readonly report: string
  readonly lines: number
}

export type Reconciliation = {
  readonly files: readonly ReadFile[]
  /** What no file has, or the books never have: no entry of it counts as missing at the provider. */
  readonly uncovered: readonly Coverage[]
  /** The balances of the account at the start and the end of the period, by the dates of the statement. */
  readonly balancesHere: { readonly openingMicros: bigint; readonly closingMicros: bigint }
  /** The change of the statement's balance by its lines of the period. */
  readonly rowsMicros: bigint
  readonly sums: readonly ClassSum[]
  readonly missingThere: { readonly entries: number; readonly hereMicros: bigint }
  readonly coins: readonly { readonly currency: string; readonly lines: number; readonly amount: string }[]
  /** The number of differences of each class. */
  readonly counts: Readonly<Record<DifferenceClass, number>>
  /** The first differences of each class. */
  readonly differences: readonly Difference[]
  readonly own: readonly OwnLine[]
  readonly postable: Postable
  /** Booked lines of the files that are not dated by the statement: their number, their sum, and the first of them. */
  readonly otherTimes: {
    readonly count: number
    readonly micros: bigint
    readonly lines: readonly OtherTime[]
  }
  /** The postings of this run; null without `post`. */
  readonly posted: PostAnswer | null
  /** The log position up to which the journal was read. */
  readonly head: number
}

/** At most `most` lines are listed of each class of differences, and of fees and payouts. All are counted. */
export type ReconcileOptions = {
  readonly gateway: string
  readonly most: number
  readonly post: PostLines | null
}

/** Lines in one insert. */
const batchSize = 1_000

const inFile = (name: string, error: unknown): unknown =>
  error instanceof FileProblem ? new StatementRefused(`${name}, ${error.message}`) : error

/**
 * Refuses two different reports of payments, which would contain the same money twice. A file with declared columns may
 * have what no report has.
 */
const refuseBoth = (name: string, layout: Layout, before: Layout | undefined): void => {
  if (before === undefined || before === layout) return
  if (layout.name === declaredColumns || before.name === declaredColumns) return
  throw new StatementRefused(
    `${name} is the report "${layout.name}" and the file before it "${before.name}": give files of one of them, they say the same payments`,
  )
}

/**
 * Compares the statements of a provider with an account of the journal. Files may have any size: lines are compared in
 * temporary tables of Postgres. With `post`, fees and payouts are booked after all files were read and compared, and
 * what differs then is reported.
 * @throws StatementRefused with the file, the line and what is accepted; nothing was compared then
 */
export const reconcile = async (
  pool: pg.Pool,
  statements: readonly StatementFile[],
  { format, separator }: { readonly format: StatementFormat; readonly separator: string },
  scope: ComparisonScope,
  { gateway, most, post }: ReconcileOptions,
): Promise<Reconciliation> => {
  const session = await openSession(pool, 'farebox reconcile', 0)
  try {
    const { client } = session
    // Unlike projections, this joins whole tables.
    await client.query('reset enable_seqscan; reset enable_hashjoin; reset enable_mergejoin')
    const comparison = await createComparison(client)

    const layouts: Layout[] = []
    const addFile = async ({ name, chunks }: StatementFile): Promise<ReadFile> => {
      const digest = createHash('sha256')
      const hashed = async function* () {
        for await (const chunk of chunks()) {
          digest.update(chunk)
          yield chunk
        }
      }
      const { layout, lines } = await openStatement(hashed(), format, separator)
      refuseBoth(
        name,
        layout,
        layouts.find(({ covers }) => covers.some((each) => layout.covers.includes(each))),
      )
      layouts.push(layout)
      let count = 0
      let batch: StatementLine[] = []
      const flush = async (): Promise<void> => {
        await comparison.add(name, batch)
        count += batch.length
        batch = []
      }
      for await (const line of lines) if (batch.push(line) === batchSize) await flush()
      await flush()
      return { file: name, sha256: digest.digest('hex'), report: layout.name, lines: count }
    }
    const read: ReadFile[] = []
    for (const file of statements)
      read.push(
        await addFile(file).catch((error) => {
          throw inFile(file.name, error)
        }),
      )

    await comparison.compare(scope)
    const files = new Map(read.map(({ file, sha256 }) => [file, { name: basename(file), sha256 }] as const))
    const lines = comparison.toPost(gateway, (name) => files.get(name) ?? null)
    const posted = post === null ? null : await post({ ...(await comparison.newLines()), lines })
    const head = posted?.outcome === 'booked' ? posted.head : scope.head
    if (posted?.outcome === 'booked') await comparison.afterPosting(scope, head)

    const isCovered = (coverage: Coverage): boolean =>
      layouts.some(({ covers }) => covers.includes(coverage)) && (coverage === 'payments' || scope.isPosted)
    const compared = scope.isBank ? (['payments'] as const) : coverages
    const covered = compared.filter(isCovered)
    const sums = await comparison.sums()
    const missingThere = await comparison.missingThere(covered)
    const bookingDifferences = await comparison.bookingDifferences(scope)
    const countOf = (wanted: DifferenceClass): number => {
      switch (wanted) {
        case 'missing_there':
          return missingThere.entries
        case 'not_booked':
        case 'other_fee':
        case 'other_time':
          return bookingDifferences[wanted]
        default:
          return sums.filter((sum) => sum.class === wanted).reduce((count, { lines }) => count + lines, 0)
      }
    }
    const counts = Object.fromEntries(differenceClasses.map((each) => [each, countOf(each)])) as Record<
      DifferenceClass,
      number
    >
    const differences: Difference[] = []
    for (const each of differenceClasses)
      if (counts[each] > 0) differences.push(...(await comparison.differences(each, most, covered, scope)))
    return {
      postable: await comparison.postable(),
      otherTimes: await comparison.otherTimes(scope, head, most),
      balancesHere: await comparison.balancesHere(scope),
      rowsMicros: await comparison.rowsMicros(),
      posted,
      head,
      files: read,
      uncovered: compared.filter((each) => !isCovered(each)),
      sums,
      missingThere,
      coins: await comparison.coins(),
      counts,
      differences,
      own: await comparison.own(most),
    }
  } finally {
    await session.close()
  }
}
