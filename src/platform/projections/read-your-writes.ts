import { LRUCache } from 'lru-cache'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { Progress } from './progress.ts'

/** 503 with `Retry-After`: the read models have not come as far as the caller must see. Never answered stale. */
export class ReadsBehind extends Error {
  override readonly name = 'ReadsBehind'
  /** Whole seconds, at least 1. */
  readonly retryAfterS = 1
}

/** Read your writes. */
export type Reads = {
  /** This process appended for the account; its reads wait for that position from now on. */
  known(account: AccountId, position: number): void
  /**
   * Resolves when the read models hold everything known for the account when it is called: what this process appended,
   * what any process appended to the account's ledger, and `atLeast` (a position that the client was given).
   * @throws ReadsBehind at the bound; what `log.lastOf` throws when the log cannot be reached
   */
  settled(account: AccountId, atLeast?: number): Promise<void>
  /**
   * As `settled`, without a look at the log: what other processes appended for the account may be missing. For reads
   * that show no money of the account, such as stock.
   * @throws ReadsBehind at the bound
   */
  settledHere(account: AccountId, atLeast?: number): Promise<void>
}

/** Resolves once the read tables hold all that is in the log now, or the bound has passed. */
export type CaughtUp = () => Promise<void>

export type ReadsOptions = {
  readonly progress: Progress
  readonly log: Pick<EventLog, 'lastOf' | 'head'>
  /** The group that the reads are answered from. */
  readonly group: string
  /** Default 2,000. */
  readonly timeoutMs?: number
}

/** Accounts whose last append is remembered. Forgotten ones are still found by their ledger. */
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
    // A position that was never given out would never be reached: no answer is newer than the log.
    const given = atLeast > Math.max(now, target) ? Math.min(atLeast, await log.head()) : atLeast
    await waitFor(Math.max(target, given), deadlineMs)
  }

  return {
    known: (account, position) => {
      if (position > (appended.get(account) ?? 0)) appended.set(account, position)
    },
    settled: async (account, atLeast = 0) => {
      const deadlineMs = performance.now() + timeoutMs
      const own = appended.get(account) ?? 0
      const last = await log.lastOf(ledgerStream(account))
      await reach(Math.max(own, last?.position ?? 0), atLeast, deadlineMs)
    },
    settledHere: (account, atLeast = 0) =>
      reach(appended.get(account) ?? 0, atLeast, performance.now() + timeoutMs),
  }
}
