/** Receives events of the queues of a process. `src/app/metrics.ts` counts them. */
export type WorkMetrics = {
  /** The process works on this queue. `inFlight` is the number of its running items. */
  running(queue: string, inFlight: () => number): void
  /** The outcome of an item: `again` will be tried again, `dead` will not. */
  ended(queue: string, outcome: 'done' | 'again' | 'dead'): void
}

/** A row of a queue's table for a handler: its columns with their names in Postgres. */
export type QueueItem = {
  /** The number of previous attempts. */
  readonly attempts: number
}

/** A table that is a queue (see `work.add_queue` in migrations.ts). Its names are constants of the program. */
export type QueueTable = {
  /** Its name for operators and in metrics. */
  readonly name: string
  /** The table's name with its schema. */
  readonly table: string
  /** The columns of its primary key, all text. */
  readonly key: readonly string[]
  /** The column of the owner, text. Owners take turns: items of one owner do not wait for items of another. */
  readonly owner: string
  /** The longest wait of an item for its next attempt, milliseconds. A later due time was set by a wrong clock. */
  readonly longestWaitMs: number
  /** More columns that the handler needs. */
  readonly columns: readonly string[]
  /** Another condition for a due item, over the item `d` and the time `now`. Default: none. */
  readonly ready?: (now: string) => string
  /** The order of an owner's due items: expressions over the item `d` and the time `now`. Default: by due time. */
  readonly order?: (now: string) => string
  /** For items that are tried again: whether the last attempt failed, a condition over the item `d`. Default: true. */
  readonly failed?: string
  /** Which items are dead and need an operator: a condition over the item `d`. */
  readonly dead?: string
  /** Why an item is dead: an expression over the item `d`. Default: its `result`. */
  readonly why?: string
}

/** The item's key as one text, for lists and logs. */
export const keyOf = ({ key }: QueueTable, item: object): string =>
  key.map((column) => (item as Readonly<Record<string, unknown>>)[column]).join(' ')

export const ownerOf = ({ owner }: QueueTable, item: object): string =>
  String((item as Readonly<Record<string, unknown>>)[owner])

export const deadCondition = ({ dead = "d.status = 'dead'" }: QueueTable): string => dead
