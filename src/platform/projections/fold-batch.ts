import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'
import { noYield, type YieldToCommands, yieldEvery } from '../commands/background-scheduler.ts'
import { keyOf, keyProblem, keyText, type Row, rowProblem } from './definition.ts'
import { createDispatch, type Dispatch, type ReadModel, type Rows, type Table } from './read-model.ts'
import type { RowCache, TableCache } from './row-cache.ts'

/** The changes of a batch in one table: new rows, rows to insert or replace, keys to delete. Each key occurs once. */
export type TableChange = {
  readonly table: Table
  readonly inserted: readonly Row[]
  readonly put: readonly Row[]
  readonly removed: readonly (readonly (string | number)[])[]
}

/** The events of a group after one position and up to another, and their changes in the read tables. */
export type FoldedBatch = {
  readonly group: string
  readonly after: number
  readonly through: number
  readonly tables: readonly TableChange[]
}

/** Receives the folded events before their changes are visible in the tables. */
export type FoldWatch = {
  /** A batch is about to be written to the live tables. The write waits for the result. */
  beforeWrite(batch: FoldedBatch): Promise<void>
  /** A batch was folded into tables that are rebuilt next to the live ones, from the first event of the log. */
  onReplayed?(batch: FoldedBatch): void
  /** Rebuilt tables replace the live ones when the transaction of `client` is committed. */
  beforeSwap?(group: string, client: Pick<pg.ClientBase, 'query'>): Promise<void>
}

/** The changes of a batch. `commit` updates the cache: call it when they are written, or certain to be written. */
export type Changes = { readonly tables: readonly TableChange[]; commit(): void }

/** A model threw an error on an event. The events before it may be applied; the event itself and later ones may not. */
export class PoisonEvent extends Error {
  override readonly name = 'PoisonEvent'
  readonly event: RecordedEvent
  readonly model: string
  constructor(event: RecordedEvent, model: string, cause: unknown) {
    super(
      `read model ${model} cannot take ${event.type} ${event.id} (${event.stream} revision ${event.revision}, position ${event.position}): ${cause instanceof Error ? cause.message : cause}`,
      { cause },
    )
    this.event = event
    this.model = model
  }
}

/** SQLSTATE classes of data that Postgres rejects: values, constraints, unreadable texts, sizes. */
export const isDataError = (error: unknown): boolean =>
  /^(22|23|54)/.test((error as { code?: unknown }).code?.toString() ?? '')

/** The model whose table rejected a row. */
export const modelOfRow = (error: unknown, models: readonly ReadModel[]): ReadModel | undefined =>
  models.find(({ tables }) => tables.some(({ name }) => name === (error as { table?: unknown }).table))

/** Loads rows by key with one set-based select per table. Absent rows are not in the result. */
export type LoadRows = (
  table: Table,
  keys: readonly (readonly (string | number)[])[],
) => Promise<readonly Row[]>

/** A batch that is folded while its events arrive. */
export type Fold = {
  /** The number of folded events. */
  readonly events: number
  /** The last folded event. */
  readonly last: RecordedEvent | null
  /**
   * Folds the next events in log order.
   * @param yieldToCommands called between steps
   * @throws PoisonEvent; the events before that event remain folded
   */
  take(events: readonly RecordedEvent[], yieldToCommands?: YieldToCommands): Promise<void>
  /** The changes of all folded events together. */
  changes(): Changes
}

export type FoldOptions = {
  readonly models: readonly ReadModel[]
  readonly cache: RowCache
  readonly load: LoadRows
  /**
   * Called with each event that a model cannot apply, including events with rows that Postgres would reject. That
   * model skips the whole event and the fold continues. Without it, the fold ends with the first such event.
   */
  readonly onPoison?: (poison: PoisonEvent) => void
  /**
   * No other process writes these tables. A row that is known to be absent is then inserted by `copy`, which costs
   * less than an upsert. Without it, a row that another process inserted in the meantime is replaced.
   */
  readonly soleWriter?: true
}

/** Events folded in one step: about half a millisecond of work. */
const stepEvents = 40
/** Steps after which the event loop gets a turn in any case: some milliseconds of work. */
const turnSteps = 12

type Key = readonly (string | number)[]
/** `inserted`: the key had no row before the batch. */
type Change = { readonly key: Key; readonly row: Row | null; readonly inserted: boolean }
type NamedRow = { readonly table: Table; readonly key: Key; readonly text: string }

type Named = {
  readonly rows: readonly NamedRow[]
  /** The error of a model in `reads` of this event. Thrown when the event is applied. Null if there was none. */
  readonly poison: PoisonEvent | null
}

/** One per list of models, because each list is folded batch by batch. */
const dispatches = new WeakMap<readonly ReadModel[], Dispatch<ReadModel>>()
const dispatchOf = (models: readonly ReadModel[]): Dispatch<ReadModel> => {
  let dispatch = dispatches.get(models)
  if (!dispatch) {
    dispatch = createDispatch(models)
    dispatches.set(models, dispatch)
  }
  return dispatch
}

/**
 * The rows that the events read, as far as the events alone determine them.
 * @param skipsPoison continue after a model that throws an error. Its rows are then loaded one by one.
 */
const nameRows = (
  models: readonly ReadModel[],
  events: readonly RecordedEvent[],
  skipsPoison: boolean,
): Named => {
  const modelsFor = dispatchOf(models)
  const tables = new Map(models.flatMap((model) => model.tables.map((table) => [table.name, table as Table])))
  const rows: NamedRow[] = []
  for (const event of events)
    for (const model of modelsFor(event))
      try {
        for (const { table: name, key } of model.reads(event)) {
          const table = tables.get(name)
          if (!table) throw new Error(`no read model of the group has a table ${name}`)
          if (skipsPoison && keyProblem(table, key) !== null) continue
          rows.push({ table, key, text: keyText(key) })
        }
      } catch (cause) {
        if (!skipsPoison) return { rows, poison: new PoisonEvent(event, model.name, cause) }
      }
  return { rows, poison: null }
}

/** Whether a row is the same before and after the batch, e.g. an order that was opened and closed within the batch. */
const isSame = (before: Row | null | undefined, after: Row | null): boolean => {
  if (before === undefined) return false
  if (before === null || after === null) return before === after
  return Object.keys(after).every((name) => before[name] === after[name])
}

/** `apply` read a row that is neither in the batch nor in the cache. The row is loaded, the event applied again. */
class RowNotLoaded extends Error {
  override readonly name = 'RowNotLoaded'
  readonly row: NamedRow
  constructor(row: NamedRow) {
    super(`row ${row.key.join(', ')} of ${row.table.name} is not loaded`)
    this.row = row
  }
}

const throwProblem = (problem: string | null): void => {
  if (problem !== null) throw new Error(problem)
}

/** The rows of a table, by `keyText`. */
type TableRows = {
  readonly table: Table
  /** The changes of the batch. */
  readonly changes: Map<string, Change>
  /** The rows that were loaded for the batch, and rows that must stay known until its end. */
  readonly loaded: Map<string, Row | null>
  readonly cache: TableCache
  /** Null until a row is added. */
  added: Row[] | null
}

/** Rows as of the current event: changed by the batch, else loaded for it, else cached. Undefined: not known. */
const createOverlay = (cache: RowCache, checksRows: boolean) => {
  const tables = new Map<Table, TableRows>()
  /** The changes of the current event with the former values, so that they can be undone. */
  const journal: (
    | { readonly changes: Map<string, Change>; readonly text: string; readonly previous: Change | undefined }
    | { readonly list: Row[] }
  )[] = []

  const rowsOf = (table: Table): TableRows => {
    let known = tables.get(table)
    if (!known) {
      known = { table, changes: new Map(), loaded: new Map(), cache: cache.of(table.name), added: null }
      tables.set(table, known)
    }
    return known
  }
  /** The row before the batch. */
  const before = ({ loaded, cache: tableCache }: TableRows, text: string): Row | null | undefined => {
    const row = loaded.size === 0 ? undefined : loaded.get(text)
    return row === undefined ? tableCache.find(text) : row
  }
  const record = (table: Table, key: Key, row: Row | null, isNew: boolean): void => {
    if (checksRows) throwProblem(row === null ? keyProblem(table, key) : rowProblem(table, row))
    const { changes } = rowsOf(table)
    const text = keyText(key)
    const previous = changes.get(text)
    if (isNew && previous?.row) throw new Error(`row ${key.join(', ')} of ${table.name} is inserted twice`)
    journal.push({ changes, text, previous })
    if (row === null && previous?.inserted) changes.delete(text)
    else changes.set(text, { key, row, inserted: previous?.inserted ?? isNew })
  }
  /** Undoes the changes of the current event since a mark. */
  const undoTo = (mark: number): void => {
    for (const entry of journal.splice(mark).reverse())
      if ('list' in entry) entry.list.pop()
      else if (entry.previous) entry.changes.set(entry.text, entry.previous)
      else entry.changes.delete(entry.text)
  }
  const rows: Rows = {
    get: <R extends object>(typed: Table<R>, key: Key): R | undefined => {
      const table = typed as Table
      if (checksRows) throwProblem(keyProblem(table, key))
      const known = rowsOf(table)
      const text = keyText(key)
      const change = known.changes.get(text)
      const row = change ? change.row : before(known, text)
      if (row === undefined) throw new RowNotLoaded({ table, key, text })
      return (row ?? undefined) as R | undefined
    },
    insert: (table, row) => record(table as Table, keyOf(table as Table, row as Row), row as Row, true),
    put: (table, row) => record(table as Table, keyOf(table as Table, row as Row), row as Row, false),
    remove: (table, key) => record(table as Table, key, null, false),
    add: (typed, row) => {
      const table = typed as Table
      if (!table.appendOnly) throw new Error(`rows of ${table.name} are put, not added`)
      if (checksRows) throwProblem(rowProblem(table, row as Row))
      const known = rowsOf(table)
      known.added ??= []
      known.added.push(row as Row)
      journal.push({ list: known.added })
    },
    attempt: (part) => {
      const journalMark = journal.length
      try {
        part()
        return null
      } catch (error) {
        // The event is applied again after the row is loaded.
        if (error instanceof RowNotLoaded) throw error
        undoTo(journalMark)
        return error instanceof Error ? error.message : String(error)
      }
    },
  }
  return {
    /** Whether the row is known. If so, it stays known until the end of the batch, even if the cache drops it. */
    holds: (table: Table, text: string): boolean => {
      const known = rowsOf(table)
      if (known.changes.has(text)) return true
      const row = before(known, text)
      if (row !== undefined) known.loaded.set(text, row)
      return row !== undefined
    },
    before,
    rows,
    tables,
    keepLoaded: (table: Table, text: string, row: Row | null): void => {
      const known = rowsOf(table)
      known.loaded.set(text, row)
      known.cache.put(text, row)
    },
    beginEvent: (): void => {
      journal.length = 0
    },
    /** The number of changes of the current event so far. */
    mark: (): number => journal.length,
    undoTo,
  }
}

/**
 * Folds events into row changes in memory, in log order. Rows that are neither changed by this batch nor cached are
 * loaded when an event first needs one, and then for all remaining events at once: mostly one select per table, or
 * none. So `reads` is not called while every row is known.
 */
export const startFold = ({ models, cache, load, onPoison, soleWriter }: FoldOptions): Fold => {
  const overlay = createOverlay(cache, onPoison !== undefined || models.some(({ attempts }) => attempts))
  const { holds, before, rows, tables, keepLoaded, beginEvent, mark, undoTo } = overlay
  const modelsFor = dispatchOf(models)
  let foldedCount = 0
  let last: RecordedEvent | null = null

  const loadRows = async (rowsToLoad: Iterable<NamedRow>): Promise<void> => {
    const missing = new Map<Table, Map<string, Key>>()
    for (const { table, key, text } of rowsToLoad) {
      if (holds(table, text)) continue
      const keys = missing.get(table)
      if (keys) keys.set(text, key)
      else missing.set(table, new Map([[text, key]]))
    }
    for (const [table, keys] of missing) {
      const found = new Map<string, Row>()
      for (const row of await load(table, [...keys.values()])) found.set(keyText(keyOf(table, row)), row)
      for (const text of keys.keys()) keepLoaded(table, text, found.get(text) ?? null)
    }
  }

  /** The row that the event needs and that is not loaded; null when every model has applied or skipped the event. */
  const applyEvent = (event: RecordedEvent): NamedRow | null => {
    const poisons: PoisonEvent[] = []
    beginEvent()
    for (const model of modelsFor(event)) {
      const journalMark = mark()
      try {
        model.apply(event, rows)
      } catch (cause) {
        if (cause instanceof RowNotLoaded) {
          undoTo(0)
          return cause.row
        }
        const poison = new PoisonEvent(event, model.name, cause)
        undoTo(onPoison === undefined ? 0 : journalMark)
        if (onPoison === undefined) throw poison
        poisons.push(poison)
      }
    }
    // Only now, because the event may have been applied several times until all of its rows were loaded.
    for (const poison of poisons) onPoison?.(poison)
    return null
  }

  const take = async (
    events: readonly RecordedEvent[],
    yieldToCommands: YieldToCommands = noYield,
  ): Promise<void> => {
    const rest = yieldEvery(turnSteps, yieldToCommands)
    let named: Named | null = null
    for (const [index, event] of events.entries()) {
      if (index > 0 && index % stepEvents === 0) await rest()
      // Each pass loads one more of the finitely many rows of the event.
      for (let row = applyEvent(event); row; row = applyEvent(event)) {
        if (event === named?.poison?.event) throw named.poison
        const isFirst = named === null
        named ??= nameRows(models, events.slice(index), onPoison !== undefined)
        await loadRows(isFirst ? [row, ...named.rows] : [row])
      }
      foldedCount += 1
      last = event
    }
  }

  const changeOf = (known: TableRows): TableChange => {
    const { table } = known
    const inserted: Row[] = known.added === null ? [] : [...known.added]
    const put: Row[] = []
    const removed: Key[] = []
    for (const [text, { key, row, inserted: isNew }] of known.changes) {
      const previous = isNew ? null : before(known, text)
      if (row && (isNew || (soleWriter && previous === null))) inserted.push(row)
      else if (isSame(previous, row)) continue
      else if (row) put.push(row)
      else removed.push(key)
    }
    return { table, inserted, put, removed }
  }

  const changes = (): Changes => ({
    tables: [...tables.values()]
      .filter((known) => known.changes.size > 0 || known.added !== null)
      .map(changeOf),
    commit: () => {
      for (const { changes: ofTable, cache: tableCache } of tables.values())
        for (const [text, { row, inserted }] of ofTable)
          if (inserted) tableCache.leaveOut(text)
          else tableCache.put(text, row)
    },
  })

  return {
    get events() {
      return foldedCount
    },
    get last() {
      return last
    },
    take,
    changes,
  }
}

/**
 * Folds a batch whose events are all available.
 * @throws PoisonEvent
 */
export const foldBatch = async ({
  events,
  ...options
}: FoldOptions & { readonly events: readonly RecordedEvent[] }): Promise<Changes> => {
  const fold = startFold(options)
  await fold.take(events)
  return fold.changes()
}
