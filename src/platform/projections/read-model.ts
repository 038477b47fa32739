import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { LockName } from '../postgres/locks.ts'

/** Returns the models that take an event, in their order. */
export type Dispatch<Model> = (event: Pick<RecordedEvent, 'type' | 'stream'>) => readonly Model[]

/** A log of Farebox has fewer types, each in one or two kinds of streams. A foreign log may have any number. */
const maxKnown = 2_000

/** `ledger-` for `ledger-acc_…`; the whole name if it has no id part. */
export const kindOfStream = (stream: string): string => stream.slice(0, stream.indexOf('-') + 1) || stream

export const createDispatch = <Model extends Pick<ReadModel, 'takes'>>(
  models: readonly Model[],
): Dispatch<Model> => {
  const known = new Map<string, Map<string, readonly Model[]>>()
  let count = 0
  return ({ type, stream }) => {
    const kind = kindOfStream(stream)
    const found = known.get(type)?.get(kind)
    if (found !== undefined) return found
    const interested = models.filter(
      ({ takes }) => takes === undefined || takes.types.has(type) || takes.streams?.has(kind),
    )
    if (count === maxKnown) {
      known.clear()
      count = 0
    }
    const ofType = known.get(type)
    if (ofType) ofType.set(kind, interested)
    else known.set(type, new Map([[kind, interested]]))
    count += 1
    return interested
  }
}

/** Postgres types of columns of read tables. Money is `bigint` micro-dollars or cents and is read as a safe number. */
export type ColumnType =
  | 'text'
  | 'bigint'
  | 'integer'
  | 'boolean'
  | 'timestamptz'
  | 'jsonb'
  | 'text[]'
  | 'inet'

export type Column<Value = unknown> = {
  readonly type: ColumnType
  readonly nullable?: true
  /** Only for the compiler. */
  readonly value?: Value
}

const columnOf = (type: ColumnType): Column<never> => ({ type })

/** The columns of `readTable`. A type parameter narrows the values. */
export const column = {
  text: <Value extends string = string>(): Column<Value> => columnOf('text'),
  bigint: (): Column<number> => columnOf('bigint'),
  integer: (): Column<number> => columnOf('integer'),
  boolean: (): Column<boolean> => columnOf('boolean'),
  /** A time in ISO 8601. */
  timestamptz: (): Column<string> => columnOf('timestamptz'),
  jsonb: <Value>(): Column<Value> => columnOf('jsonb'),
  textArray: <Value extends string = string>(): Column<readonly Value[]> => columnOf('text[]'),
  inet: (): Column<string> => columnOf('inet'),
}
export const nullable = <Value>({ type }: Column<Value>): Column<Value | null> => ({ type, nullable: true })

/**
 * A table of a read model: columns, primary key and indexes. The column of the field `orderId` is `order_id`. An
 * index is a list of columns (`desc` and a `where` are allowed) or `using …` as in `create index`.
 */
export type Table<Row extends object = Record<string, unknown>, Name extends string = string> = {
  readonly name: Name
  readonly columns: { readonly [Field in keyof Row & string]: Column }
  readonly key: readonly (keyof Row & string)[]
  readonly indexes?: readonly string[]
  /** Rows are only added, by `Rows.add`. They are never read, replaced or cached. */
  readonly appendOnly?: true
  /**
   * Rows are replaced often. Half of every page stays free for the next version of a row. Otherwise that version
   * moves to another page and every index is written: of 5,000 replaced rows 448 stayed on their page; with the free
   * space, all did.
   */
  readonly rewritten?: true
}

/** The row of a list of columns. */
type RowOfColumns<Columns> = {
  readonly [Field in keyof Columns]: Columns[Field] extends Column<infer Value> ? Value : never
}

/** Declares a table. Its row type follows from the columns. */
export const readTable = <const Name extends string, Columns extends Readonly<Record<string, Column>>>(
  table: Omit<Table<RowOfColumns<Columns>, Name>, 'columns'> & { readonly columns: Columns },
): Table<RowOfColumns<Columns>, Name> => table

/** The type of the rows of a table. */
export type RowOf<T> = T extends Table<infer Row, string> ? Row : never

/** One row by its primary key, in the order of `table.key`. */
export type RowKey = { readonly table: string; readonly key: readonly (string | number)[] }

/** The rows of one batch. The changes of `put` and `remove` are written set-based at its end. */
export type Rows = {
  /**
   * The row as of this event, or undefined. Rows that `reads` named are loaded for the whole batch at once. Any other
   * row is loaded on access, with one round trip each. Then `apply` is called again, so it must be pure.
   */
  get<Row extends object>(table: Table<Row>, key: readonly (string | number)[]): Row | undefined
  /**
   * A row whose key never had a row. It costs less than `put`, and nothing if the row is removed again within the
   * batch. The row is not cached for later events. A key that already has a row is a poison event.
   */
  insert<Row extends object>(table: Table<Row>, row: Row): void
  /** Inserts or replaces the whole row. */
  put<Row extends object>(table: Table<Row>, row: Row): void
  remove<Row extends object>(table: Table<Row>, key: readonly (string | number)[]): void
  /** Inserts a row into a table that is `appendOnly`. Its key must be new: it includes the position of the event. */
  add<Row extends object>(table: Table<Row>, row: Row): void
  /**
   * Applies a part of an event. If the part fails, all of its changes are undone and the reason is returned. Null if
   * it succeeds. Only for models that set `attempts`.
   */
  attempt(part: () => void): string | null
}

/** Declares a read model, with the types of its tables. */
export const readModel = <const Model extends ReadModel>(model: Model): Model => model

/** The events that a model takes. */
export type EventFilter = {
  /** Events of these types, in any stream. */
  readonly types: ReadonlySet<string>
  /** Events of any type in streams of these kinds (`ledger-`). */
  readonly streams?: ReadonlySet<string>
}

/**
 * A pure fold of the log into tables: no clock, no I/O, no other read model. A rebuild produces the same bytes. An
 * error is a poison event: the model is stopped, its group continues without it, and an alarm is raised.
 */
export type ReadModel = {
  readonly name: string
  /** Increase it with every change of tables or handlers. A new version is rebuilt next to the old one. */
  readonly version: number
  /** Describes the input of the model that the version does not cover. The tables are also rebuilt when it changes. */
  readonly content?: string
  // biome-ignore lint/suspicious/noExplicitAny: the list has tables of many row types
  readonly tables: readonly Table<any>[]
  /** Names of tables of earlier versions. They are dropped when the tables of this version are created. */
  readonly formerTables?: readonly string[]
  /** The model applies events in parts (`Rows.attempt`). Each row is first checked for values that Postgres rejects. */
  readonly attempts?: true
  /** The model skips all other events. Without it, the model takes all events. */
  readonly takes?: EventFilter
  /** The rows that `apply` will read, as far as the event alone determines them; none for events that only insert. */
  reads(event: RecordedEvent): Iterable<RowKey>
  apply(event: RecordedEvent, rows: Rows): void
}

/**
 * Tables of schema `work` that are filled from the log and also changed by other writers, such as a queue. The log
 * alone does not determine them, so they are never rebuilt next to the live ones and never compared.
 */
export type WorkFold = {
  /** The name under which its changes are announced, like the name of a table. */
  readonly name: string
  /** Increase it with every change of its behaviour. Then a process of an older release does not fold the group. */
  readonly version: number
  /** The stored types that it takes. */
  readonly types: ReadonlySet<string>
  /** Writes the changes of these events in the transaction that moves the checkpoint. Returns the number of rows. */
  take(db: Pick<pg.ClientBase, 'query'>, events: readonly RecordedEvent[]): Promise<number>
  /** Empties the tables, because they were filled from another log. They are then filled from the start of this log. */
  reset(db: Pick<pg.ClientBase, 'query'>): Promise<void>
}

/**
 * Read models that share one checkpoint and one transaction: the models that a GET needs together (hot), and models
 * that may lag (books).
 */
export type ReadModelGroup = {
  readonly name: string
  readonly models: readonly ReadModel[]
  /** Filled in place of read models. A group with `work` has none. */
  readonly work?: WorkFold
  /** How long after the last write a batch still accepts events, milliseconds. Default: the setting of the runner. */
  readonly batchWindowMs?: number
  /** A batch of this many events is written. Default: the setting of the runner. */
  readonly maxBatch?: number
  /** Tables with rarely changing rows that processes cache in memory. The owner sends a hint on each change of them. */
  readonly held?: readonly string[]
  /** The auditor folds it, with its role: the service's role can neither write its tables nor take its locks. */
  readonly audits?: true
}

/** The lock of the process that folds or rebuilds a group. */
export const groupLock = (
  { name, audits }: Pick<ReadModelGroup, 'name' | 'audits'>,
  work: 'projection' | 'rebuild',
): LockName => (audits ? { auditor: `${work} ${name}` } : `${work} ${name}`)
