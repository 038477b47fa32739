import pLimit from 'p-limit'
import type pg from 'pg'
import { CommandOverload } from '../commands/command.ts'

/** @throws the failures of a round as one error; nothing if there are none */
export const throwAll = (failures: readonly unknown[]): void => {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} of them failed`)
  if (failures.length > 0) throw failures[0]
}

/**
 * Work that is younger than this, milliseconds, belongs to the request or command that began it
 * (docs/architecture.md, "An order").
 */
export const handlerGraceMs = 5_000

/** Rows that describe pending work. */
export type Pages = {
  /** The name of the statement. */
  readonly name: string
  /** The due rows, without an order or a limit. They have the columns of `key`. */
  readonly read: string
  readonly values: () => readonly unknown[]
  /** Columns and their types. They determine the order of the rows and identify a row. */
  readonly key: Readonly<Record<string, 'text' | 'timestamptz'>>
  /** The most rows of one page. */
  readonly limit: number
}

/** A list of pending work in a read model. A row remains until its work is in the log and folded. */
export type Worklist<Row extends pg.QueryResultRow> = Pages & {
  /** Rows that are processed at the same time. Default: 1. */
  readonly atOnce?: number
  /** Runs before the rows of a page, if there are rows. */
  readonly before?: () => Promise<void>
  readonly work: (row: Row) => Promise<void>
}

/**
 * Pages through a list. Each call reads the page after the last row of the previous call, and starts again after the
 * end, so that rows without progress do not starve the rows after them.
 */
export const createPages = <Row extends pg.QueryResultRow>(
  pool: Pick<pg.Pool, 'query'>,
  { name, read, values, key, limit }: Pages,
): (() => Promise<readonly Row[]>) => {
  const columns = Object.keys(key)
  const order = columns.map((column) => `list.${column}`).join(', ')
  let after: Row | null = null
  return async () => {
    const parameters = values()
    const last = Object.values(key).map((type, n) => `$${parameters.length + n + 1}::${type}`)
    const { rows }: pg.QueryResult<Row> = await pool.query<Row>({
      name: after === null ? name : `${name}-on`,
      text: `select list.* from (${read}) list ${after === null ? '' : `where (${order}) > (${last.join(', ')})`}
              order by ${order} limit ${limit}`,
      values: [...parameters, ...(after === null ? [] : columns.map((column) => after?.[column]))],
    })
    after = rows.length < limit ? null : (rows.at(-1) ?? null)
    return rows
  }
}

/**
 * Processes rows, `atOnce` at the same time. A row that cannot be decided, e.g. because its stream cannot be read,
 * does not stop the others. A log that cannot be reached or is busy (CommandOverload) ends the round.
 * @throws the failures, after all other rows were processed
 */
export const workOnEach = async <Row>(
  rows: readonly Row[],
  work: (row: Row) => Promise<void>,
  atOnce = 1,
): Promise<void> => {
  const failures: unknown[] = []
  let overloaded = false
  await pLimit(atOnce).map(rows, async (row) => {
    if (overloaded) return
    try {
      await work(row)
    } catch (error) {
      failures.push(error)
      overloaded ||= error instanceof CommandOverload
    }
  })
  throwAll(failures)
}

/** A worklist without its row type. */
export type WorklistFactory = (pool: pg.Pool) => () => Promise<void>

export const worklist =
  <Row extends pg.QueryResultRow>(list: Worklist<Row>): WorklistFactory =>
  (pool) => {
    const page = createPages<Row>(pool, list)
    return async () => {
      const rows = await page()
      if (rows.length === 0) return
      await list.before?.()
      await workOnEach(rows, list.work, list.atOnce)
    }
  }

/**
 * A round of a worker that does the pending work of read models. Several processes may run it: `work` must be
 * idempotent, and the next round finds the rows that this one leaves.
 *
 * @example
 * ```ts
 * const open = worklist<OpenMovement>({
 *   name: 'open-movements',
 *   read: 'select movement_id, movement, opened_at from read.open_movements where opened_at <= $1::timestamptz',
 *   values: () => [isoTime(clock() - handlerGraceMs)],
 *   key: { opened_at: 'timestamptz', movement_id: 'text' },
 *   limit: 100,
 *   work: ({ movement }) => finish(movement),
 * })
 * scheduler.start(openMovements, worklistRound(pool, [open]))
 * ```
 */
export const worklistRound = (
  pool: pg.Pool,
  worklists: readonly WorklistFactory[],
): (() => Promise<void>) => {
  const rounds = worklists.map((list) => list(pool))
  return () => workOnEach(rounds, (round) => round())
}
