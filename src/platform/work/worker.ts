/** What starts a round: the time since the last one, what else wakes the worker, or events alone. */
export type Trigger =
  | { readonly everyMs: number; readonly or?: string }
  /** Completes the sentence "runs when …". */
  | { readonly when: string }

/** A job that the service does by itself, as operators see it: `farebox workers` lists all of them. */
export type Worker = {
  /** Unique, in kebab-case: logs and `work.worker_runs` name it. */
  readonly name: string
  /** What it does, one short sentence. */
  readonly about: string
  readonly trigger: Trigger
  /** Whether every process of its kind does it, or one of them at a time. */
  readonly per: 'process' | 'cluster'
  readonly process: 'server' | 'gateway' | 'free-list'
}

/** A worker that runs again and again. */
export type RepeatedWorker = Worker & { readonly trigger: { readonly everyMs: number } }

/** A worker of the one process that holds its lock. */
export type ClusterWorker = Worker & {
  readonly per: 'cluster'
  /** The advisory lock of `runAsLeader`. */
  readonly lock: string | number
  /** What Postgres calls the session that holds it. */
  readonly session: string
}

/**
 * Declares a worker. It stands beside the work as a constant, and on the list of its process.
 *
 * @example
 * ```ts
 * export const rentalExpiry = worker({
 *   name: 'rental-expiry',
 *   about: 'Ends rentals whose time is over',
 *   trigger: { everyMs: 1_000 },
 *   per: 'process',
 *   process: 'server',
 * })
 * scheduler.start(rentalExpiry, () => endRentals())
 * ```
 */
export const worker = <const Declared extends Worker | ClusterWorker>(declared: Declared): Declared =>
  Object.freeze(declared)

const duration = (ms: number): string => {
  if (ms < 1_000) return `${ms} ms`
  if (ms < 120_000) return `${ms / 1_000} s`
  return ms < 7_200_000 ? `${ms / 60_000} min` : `${ms / 3_600_000} h`
}

/** E.g. `every 500 ms or when a webhook is due`. */
export const triggerText = ({ trigger }: Pick<Worker, 'trigger'>): string => {
  if ('when' in trigger) return `when ${trigger.when}`
  return `every ${duration(trigger.everyMs)}${trigger.or === undefined ? '' : ` or when ${trigger.or}`}`
}
