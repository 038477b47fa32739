import type pg from 'pg'
import type { StatementBooking } from '../../money/ledger/statement-decide.ts'
import { openSession } from '../../platform/postgres/session.ts'
import {
  type Against,
  type ClassSum,
  createComparison,
  type Difference,
  type DifferenceClass,
  differenceClasses,
  type OwnLine,
  type Postable,
} from './compare.ts'
import type { Layout, StatementFormat } from './layout.ts'
import type { Posted } from './post.ts'
import { FileProblem } from './problem.ts'
import { openStatement } from './read-statement.ts'
import type { StatementLine } from './statement-line.ts'

/** A statement to read: under what name it is told of, and its bytes. */
export type StatementFile = { readonly name: string; readonly chunks: () => AsyncIterable<Uint8Array> }

/** A file that is none of the provider's statements, or two that tell the same in different ways. */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused'
}

export type ReadFile = { readonly file: string; readonly report: string; readonly lines: number }

export type Reconciliation = {
  readonly files: readonly ReadFile[]
  /** Whether a file tells of payments; without one nothing is missing there. */
  readonly coversPayments: boolean
  readonly sums: readonly ClassSum[]
  readonly missingThere: { readonly entries: number; readonly hereMicros: bigint }
  readonly coins: readonly { readonly currency: string; readonly lines: number; readonly amount: string }[]
  /** How many of each class there are. */
  readonly counts: Readonly<Record<DifferenceClass, number>>
  /** The first of each class. */
  readonly differences: readonly Difference[]
  readonly own: readonly OwnLine[]
  readonly postable: Postable
  /** What this run posted; null when it was not asked to. */
  readonly posted: Posted | null
  /** The position of the log that the journal was read up to. */
  readonly head: number
}

/** `most` of each class of differences, and of fees and payouts, are listed; all are counted. */
export type Asking = { readonly gateway: string; readonly most: number; readonly post: Post | null }

/** Posts lines, and gives the position up to which the journal has them. */
export type Post = (
  lines: AsyncIterable<StatementBooking>,
) => Promise<{ readonly posted: Posted; readonly head: number }>

/** Lines that go to Postgres at once. */
const batchSize = 1_000

const inFile = (name: string, error: unknown): unknown =>
  error instanceof FileProblem ? new StatementRefused(`${name}, ${error.message}`) : error

/** Two reports of payments would each say the same money. */
const refuseBoth = (name: string, layout: Layout, before: Layout | undefined): void => {
  if (before === undefined || before === layout || layout.covers !== before.covers) return
  throw new StatementRefused(
    `${name} is the report "${layout.name}" and the file before it "${before.name}": give files of one of them, they say the same payments`,
  )
}

/**
 * Holds the statements of a provider against an account of the journal. Files may be of any size: their lines are
 * compared in Postgres, in tables that end with the session.
 * With `post`, fees and payouts are booked after everything was read and compared.
 * @throws StatementRefused with the file, the line and what is accepted; nothing was compared then
 */
export const reconcile = async (
  pool: pg.Pool,
  files: readonly StatementFile[],
  { format, separator }: { readonly format: StatementFormat; readonly separator: string },
  against: Against,
  { gateway, most, post }: Asking,
): Promise<Reconciliation> => {
  const session = await openSession(pool, 'farebox reconcile', 0)
  try {
    const { client } = session
    // Unlike projections, this joins whole tables.
    await client.query('reset enable_seqscan; reset enable_hashjoin; reset enable_mergejoin')
    const comparison = await createComparison(client)

    const layouts: Layout[] = []
    const addFile = async ({ name, chunks }: StatementFile): Promise<ReadFile> => {
      const { layout, lines } = await openStatement(chunks(), format, separator)
      refuseBoth(
        name,
        layout,
        layouts.find(({ covers }) => covers === layout.covers),
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
      return { file: name, report: layout.name, lines: count }
    }
    const read: ReadFile[] = []
    for (const file of files)
      read.push(
        await addFile(file).catch((error) => {
          throw inFile(file.name, error)
        }),
      )

    await comparison.compare(against)
    const coversPayments = layouts.some(({ covers }) => covers === 'payments')
    const sums = await comparison.sums()
    const missingThere = coversPayments ? await comparison.missingThere() : { entries: 0, hereMicros: 0n }
    const countOf = (wanted: DifferenceClass): number =>
      wanted === 'missing_there'
        ? missingThere.entries
        : sums.filter((sum) => sum.class === wanted).reduce((count, { lines }) => count + lines, 0)
    const counts = Object.fromEntries(differenceClasses.map((each) => [each, countOf(each)])) as Record<
      DifferenceClass,
      number
    >
    const differences: Difference[] = []
    for (const each of differenceClasses)
      if (counts[each] > 0) differences.push(...(await comparison.differences(each, most)))
    const after = post === null ? null : await post(comparison.toPost(gateway))
    const head = after?.head ?? against.head
    return {
      postable: await comparison.postable(against, head),
      posted: after?.posted ?? null,
      head,
      files: read,
      coversPayments,
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
