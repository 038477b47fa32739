import { LRUCache } from 'lru-cache'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { Progress } from './progress.ts'

/** 503 with `Retry-After`: the read models have not reached the required position. A stale answer is never sent. */
export class ReadsBehind extends Error {
  override readonly name = 'ReadsBehind'
  /** Whole seconds, at least 1. */
  readonly retryAfterS = 1
}

export type Reads = {
  /** This process appended for the account. Reads of the account wait for that position from now on. */
  known(account: AccountId, position: number): void
  /**
   * Resolves when the read models include all that is known for the account at the time of the call: the appends of
   * this process, the appends of any process to the account's ledger, and `atLeast` (a position that the client
   * received).
   * @throws ReadsBehind after the time limit; the error of `log.lastOf` if the log cannot be reached
   */
  settled(account: AccountId, atLeast?: number): Promise<void>
  /**
   * As `settled`, but without a read of the log: appends of other processes for the account may be missing. For reads
   * that show no money of the account, such as stock.
   * @throws ReadsBehind after the time limit
   */
  settledHere(account: AccountId, atLeast?: number): Promise<void>
}

/** Resolves when the read tables include all events that are in the log now, or after the time limit. */
export type CaughtUp = () => Promise<void>

export type ReadsOptions = {
  readonly progress: Progress
  readonly log: Pick<EventLog, 'lastOf' | 'head'>
  /** The group that answers the reads. */
  readonly group: string
  /** Milliseconds; default 2,000. */
  readonly timeoutMs?: number
}

/** The most accounts whose last append is cached. For other accounts the ledger stream is read. */
const maxAccounts = 50_000

export const createReads = ({ progress, log, group, timeoutMs = 2000 }: ReadsOptions): Reads => {
  const appended = new LRUCache<AccountId, number>(growingCacheOptions(maxAccounts))

  const waitFor = async (position: number, deadlineMs: number): Promise<void> => {
    if (await progress.reached(group, position, Math.max(0, deadlineMs - performance.now()))) return
    throw new ReadsBehind('the data that this request must see is not readable yet; try again')
  }

  const reach = async (target: number, atLeast: number, deadlineMs: number): Promise<void> => {
    const now = progress.position(group)
    if (now >= target && now >= atLeast) return
    // No group reaches a position that does not exist, so the client's position is limited to the head of the log.
    const requested = atLeast > Math.max(now, target) ? Math.min(atLeast, await log.head()) : atLeast
    await waitFor(Math.max(target, requested), deadlineMs)
  }

  return {
    known: (account, position) => {
      if (position > (appended.get(account) ?? 0)) appended.set(account, position)
    },
    settled: async (account, atLeast = 0) => {
      const deadlineMs = performance.now() + timeoutMs
      const ownPosition = appended.get(account) ?? 0
      const last = await log.lastOf(ledgerStream(account))
      await reach(Math.max(ownPosition, last?.position ?? 0), atLeast, deadlineMs)
    },
    settledHere: (account, atLeast = 0) =>
      reach(appended.get(account) ?? 0, atLeast, performance.now() + timeoutMs),
  }
}
