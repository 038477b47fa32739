/** Told of what the queues of a process do; `src/app/metrics.ts` counts it. */
export type WorkMetrics = {
  /** A queue is worked off here; `inFlight` is how many of its items run. */
  running(queue: string, inFlight: () => number): void
  /** What became of an item: `again` will be tried again, `dead` was given up. */
  ended(queue: string, outcome: 'done' | 'again' | 'dead'): void
}

/** A row of a queue's table as a handler gets it: its columns as Postgres names them. */
export type QueueItem = {
  /** How often it was tried before. */
  readonly attempts: number
}

/** A table that is a queue (see `work.add_queue` in ../migrations.ts). Its names are constants of the program. */
export type QueueTable = {
  /** What operators and metrics call it. */
  readonly name: string
  /** With its schema. */
  readonly table: string
  /** The columns of its primary key, all text. */
  readonly key: readonly string[]
  /** The column whose values take turns: nobody's items wait for those of another. Text. */
  readonly owner: string
  /** No item waits longer than this for its next try, milliseconds. What is due later was set by a clock that was wrong. */
  readonly longestWaitMs: number
  /** Further columns that the handler needs. */
  readonly columns: readonly string[]
  /** What an item that is due waits for besides: a condition over the item `d` and the instant `now`. Default: nothing. */
  readonly ready?: (now: string) => string
  /** In which order an owner's due items are taken: terms over the item `d` and the instant `now`. Default: as they are due. */
  readonly order?: (now: string) => string
  /** Of items that are tried again: whether the last attempt failed, a condition over the item `d`. Default: it did. */
  readonly failed?: string
  /** What was given up and is an operator's to look at: a condition over the item `d`. */
  readonly dead?: string
  /** Why it was given up: a term over the item `d`. Default: its `result`. */
  readonly why?: string
}

/** The item's key as one text, for lists and logs. */
export const keyOf = ({ key }: QueueTable, item: object): string =>
  key.map((column) => (item as Readonly<Record<string, unknown>>)[column]).join(' ')

export const ownerOf = ({ owner }: QueueTable, item: object): string =>
  String((item as Readonly<Record<string, unknown>>)[owner])

export const deadCondition = ({ dead = "d.status = 'dead'" }: QueueTable): string => dead
