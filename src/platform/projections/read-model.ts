import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'

/** Tells which models an event says something to, in their order. */
export type Dispatch<Model> = (event: Pick<RecordedEvent, 'type' | 'stream'>) => readonly Model[]

/** A log of ours has fewer types, each in one or two kinds of streams; a log of another may have any number. */
const maxKnown = 2_000

/** `ledger-` of `ledger-acc_…`; the whole name where nothing of it is an id. */
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
    const asked = models.filter(
      ({ takes }) => takes === undefined || takes.types.has(type) || takes.streams?.has(kind),
    )
    if (count === maxKnown) {
      known.clear()
      count = 0
    }
    const ofType = known.get(type)
    if (ofType) ofType.set(kind, asked)
    else known.set(type, new Map([[kind, asked]]))
    count += 1
    return asked
  }
}

/** Postgres types that read tables use. Money is `bigint` micro-dollars or cents and comes back as a safe number. */
export type ColumnType =
  | 'text'
  | 'bigint'
  | 'integer'
  | 'boolean'
  | 'timestamptz'
  | 'jsonb'
  | 'text[]'
  | 'inet'

export type Column = { readonly type: ColumnType; readonly nullable?: true }

/** A table of a read model: its columns, its primary key, its indexes: column lists (`desc` and a `where` allowed), or `using …` as `create index` takes it. */
export type Table<Row extends object = Record<string, unknown>> = {
  readonly name: string
  readonly columns: { readonly [Name in keyof Row & string]: Column }
  readonly key: readonly (keyof Row & string)[]
  readonly indexes: readonly string[]
  /** Rows are only added, by `Rows.add`: none is ever looked at, replaced or kept in memory. */
  readonly appendOnly?: true
  /**
   * Rows are replaced again and again. Half of every page is left free, so that a row's next version fits beside it:
   * otherwise it moves to another page and every index is written (of 5,000 replaced rows 448 stayed; with it, all did).
   */
  readonly rewritten?: true
}

/** One row by its primary key, in the order of `table.key`. */
export type RowKey = { readonly table: string; readonly key: readonly (string | number)[] }

/** The rows of one batch: what `put` and `remove` change is written set-based at its end. */
export type Rows = {
  /**
   * The row as of this event, or undefined. What `reads` named is loaded for the whole batch at once; any other row is
   * loaded when it is asked for, a round trip each (and `apply` is called again: it must be pure).
   */
  get<Row extends object>(table: Table<Row>, key: readonly (string | number)[]): Row | undefined
  /**
   * A row whose key never had one. It costs less than `put`, and a row that is removed again within its batch costs
   * nothing; it is not held in memory for later events. A key that has a row is a poison event.
   */
  insert<Row extends object>(table: Table<Row>, row: Row): void
  /** Inserts or replaces the whole row. */
  put<Row extends object>(table: Table<Row>, row: Row): void
  remove<Row extends object>(table: Table<Row>, key: readonly (string | number)[]): void
  /** Inserts a row into a table that is `appendOnly`. Its key must be new: the position of the event is part of it. */
  add<Row extends object>(table: Table<Row>, row: Row): void
  /**
   * Does a part of what an event says. What that part cannot take is taken back, whole, and its reason given; null when it
   * was taken. Only for models that state `attempts`.
   */
  attempt(part: () => void): string | null
}

/** The events that say something to a model. */
export type EventFilter = {
  /** Of these types, in whatever stream. */
  readonly types: ReadonlySet<string>
  /** Of streams of these kinds (`ledger-`), of whatever type. */
  readonly streams?: ReadonlySet<string>
}

/**
 * A pure fold of the log into tables: no clock, no I/O, no other read model. Dropped and rebuilt it comes out byte for
 * byte the same. A throw is a poison event: it stops the model's group and raises an alarm.
 */
export type ReadModel = {
  readonly name: string
  /** Rises with every change of tables or handlers; a new version is rebuilt beside the old. */
  readonly version: number
  /** Says what it is made of, where the version alone does not: the tables are rebuilt after a change of it, too. */
  readonly content?: string
  // biome-ignore lint/suspicious/noExplicitAny: tables of many row types stand in one list
  readonly tables: readonly Table<any>[]
  /** Names of tables that earlier versions had: they go when the tables of this version come. */
  readonly formerTables?: readonly string[]
  /** It takes events in parts (`Rows.attempt`): each row is looked at before it is taken, which Postgres would refuse. */
  readonly attempts?: true
  /** Any other event it is not asked about; left out: it is asked about all. */
  readonly takes?: EventFilter
  /** The rows that `apply` will look at, as far as the event alone tells; none for events that only insert. */
  reads(event: RecordedEvent): Iterable<RowKey>
  apply(event: RecordedEvent, rows: Rows): void
}

/**
 * Tables of schema `work` that are filled from the log and that others change too, such as a queue: they are not a fold of
 * the log alone, so they are never made anew beside the live ones and never compared.
 */
export type WorkFold = {
  /** Its changes are told under this name, as those of a table. */
  readonly name: string
  /** Rises with every change of what it knows or does: from then on a process of an older release leaves the group alone. */
  readonly version: number
  /** The stored types that say something to it. */
  readonly types: ReadonlySet<string>
  /** Writes what events of these types say, in the transaction that moves the checkpoint. Gives how many rows they are. */
  take(db: Pick<pg.ClientBase, 'query'>, events: readonly RecordedEvent[]): Promise<number>
  /** Empties the tables, which are then filled from the start of the log: they were filled from another one. */
  reset(db: Pick<pg.ClientBase, 'query'>): Promise<void>
}

/** Read models that share one checkpoint and one transaction: what a GET needs together (hot), what may lag (books). */
export type ReadModelGroup = {
  readonly name: string
  readonly models: readonly ReadModel[]
  /** What the group fills in place of read models: it has none then. */
  readonly work?: WorkFold
  /** How long after the last write a batch goes on taking events, milliseconds; left out: as the runner says. */
  readonly batchWindowMs?: number
  /** Events after which a batch is written; left out: as the runner says. */
  readonly maxBatch?: number
  /** Tables that processes hold in memory: the owner hints all of them at each change. Rows that rarely change. */
  readonly held?: readonly string[]
}
