import type { LockName } from '../postgres/locks.ts'

/** The trigger of a round: the time since the last one, another wake-up, or events alone. */
export type Trigger =
  | {
      readonly everyMs: number
      /** The time between rounds while no process of this database appends an event or announces work. Default: `everyMs`. */
      readonly quietMs?: number
      readonly or?: string
      /** Completes the sentence "runs while …". At other times no round is due. Default: a round is always due. */
      readonly while?: string
    }
  /** Completes the sentence "runs when …". */
  | { readonly when: string }

/** A job that the service does by itself. `farebox workers` lists all jobs for operators. */
export type Worker = {
  /** Unique, in kebab-case. Logs and `work.worker_runs` use it. */
  readonly name: string
  /** What it does, one short sentence. */
  readonly about: string
  readonly trigger: Trigger
  /** Whether every process of its kind does it, or one of them at a time. */
  readonly per: 'process' | 'cluster'
  readonly process: 'server' | 'auditor' | 'gateway' | 'free-list'
}

/** A worker that runs repeatedly. */
export type RepeatedWorker = Worker & {
  readonly trigger: { readonly everyMs: number; readonly quietMs?: number; readonly while?: string }
}

/** A worker that runs only in the process that has its lock. */
export type ClusterWorker = Worker & {
  readonly per: 'cluster'
  /** The lock of `runAsLeader`. */
  readonly lock: LockName
  /** The name in Postgres of the session that has the lock. */
  readonly session: string
}

/**
 * Declares a worker: a constant next to its work, which is also on the list of its process.
 *
 * @example
 * ```ts
 * export const rentalExpiry = worker({
 *   name: 'rental-expiry',
 *   about: 'Ends expired rentals',
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

/** E.g. `every 500 ms to 10 s or when a webhook is due`. */
export const triggerText = ({ trigger }: Pick<Worker, 'trigger'>): string => {
  if ('when' in trigger) return `when ${trigger.when}`
  const { everyMs, quietMs, or, while: condition } = trigger
  const quiet = quietMs === undefined ? '' : ` to ${duration(quietMs)}`
  const only = condition === undefined ? '' : ` while ${condition}`
  return `every ${duration(everyMs)}${quiet}${only}${or === undefined ? '' : ` or when ${or}`}`
}
