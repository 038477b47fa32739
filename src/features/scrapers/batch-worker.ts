import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accountRef, capOf, isKeyActive } from '../../domain/accounts/fold.ts'
import { decideFinish, scrapeBatchRef } from '../../domain/scrapers/batches.ts'
import { isResult, type ScrapeOutcome, scrapeRef } from '../../domain/scrapers/calls.ts'
import { scraperOf } from '../../domain/scrapers/scraper-table.ts'
import { type Clock, hasElapsed } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type KeyId, newId, type ScrapeBatchId, scrapeIdOf } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readState } from '../../platform/commands/command.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { ApiError } from '../../platform/http/errors.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { exponentialBackoff, type Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  acceptedOf,
  type BatchItem,
  type BatchItems,
  type BatchRow,
  batchQueue,
  type ItemOutcome,
} from './batch-items.ts'
import { itemRequestId } from './batch-service.ts'
import { refusalOf } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import type { Scrapes } from './scrape.ts'

type Dependencies = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly items: BatchItems
  readonly scrapes: Pick<Scrapes, 'call'>
  /** The rate limit of the account applies to batch calls too; null: limits are off. */
  readonly rate: ScrapeRate | null
  readonly clock: Clock
  readonly pollMs?: number
}

/** Longer than any call including its wait for the rate limit, milliseconds. */
const longestMs = 240_000
const maxAttempts = 6
const finishBatchSize = 100
const cleanupIntervalMs = 60_000

/** Refusals that may be temporary, so the call is tried again. All others are the result of the call. */
const retryableCodes: ReadonlySet<string> = new Set([
  'provider_failed',
  'upstream_credits_exhausted',
  'upstream_auth_rejected',
  'overloaded',
])

const itemOutcomes = {
  found: 'found',
  empty: 'empty',
  target_not_found: 'not_found',
  target_restricted: 'restricted',
} as const satisfies Partial<Record<ScrapeOutcome, ItemOutcome>>

const system = (): Cause => ({
  actor: { kind: 'system', name: 'scrape-batches' },
  correlationId: newId('run'),
})

/** The key of a batch and its cap, or why the log currently forbids calls with it. */
const keyOf = async (
  { runner, clock }: Pick<Dependencies, 'runner' | 'clock'>,
  accountId: AccountId,
  keyId: KeyId,
): Promise<Pick<Caller, 'keyId' | 'capKeyId' | 'cap'> | string> => {
  const account = await readState(runner, { ...system(), name: 'read-account' }, accountRef(accountId))
  if (account?.blocked) return 'account_blocked'
  const key = account?.keys.get(keyId)
  return key && isKeyActive(key, clock()) && key.scopes.includes('scrape')
    ? { keyId, capKeyId: key.capKeyId, cap: capOf(key) }
    : 'unauthorized'
}

/** Whether a call is in progress or has a result. It may be billed, so a canceled batch still shows it. */
const hasCall = async (runner: CommandRunner, accountId: AccountId, requestId: string): Promise<boolean> => {
  const call = await readState(
    runner,
    { ...system(), name: 'read-scrape' },
    scrapeRef(scrapeIdOf(accountId, requestId)),
  )
  return call !== null && (call.finished === null || isResult(call.finished.outcome))
}

const makeCall = async (dependencies: Dependencies, item: BatchItem): Promise<Outcome> => {
  const { items, scrapes, rate } = dependencies
  const batch = await items.batch(item.batch_id)
  if (batch === null) return { kind: 'dead', why: 'its batch is gone' }
  if (!items.isGenuine(batch, item)) return { kind: 'dead', why: 'it was not written by the service' }
  const finishItem = async (outcome: ItemOutcome, charged: number, result: string): Promise<Outcome> => {
    await items.note(item, outcome, charged)
    return { kind: 'done', result }
  }
  const { account_id: accountId, key_id: keyId, platform, operation } = batch
  const row = scraperOf(platform, operation)
  if (row === null) return finishItem('failed', 0, 'unknown_scraper')
  const requestId = itemRequestId(item.batch_id, Number(item.n))
  const isCanceled = async ({ canceled_at }: BatchRow) =>
    canceled_at !== null && !(await hasCall(dependencies.runner, accountId, requestId))
  if (await isCanceled(batch)) return finishItem('canceled', 0, 'canceled')
  const key = await keyOf(dependencies, accountId, keyId)
  if (typeof key === 'string') return finishItem('failed', 0, key)
  if (rate)
    for (let taken = await rate.take(accountId); taken.waitS > 0; taken = await rate.take(accountId)) {
      await sleep(taken.waitS * 1_000)
      if (await isCanceled((await items.batch(item.batch_id)) ?? batch))
        return finishItem('canceled', 0, 'canceled')
    }
  const afterRefusal = ({ code, headers, extra }: ApiError): Outcome | Promise<Outcome> =>
    retryableCodes.has(code) && extra?.retryable !== false && item.attempts + 1 < maxAttempts
      ? {
          kind: 'again',
          why: code,
          afterMs: Math.min(batchQueue.longestWaitMs, Number(headers?.['retry-after'] ?? 0) * 1_000),
        }
      : finishItem('failed', 0, code)
  try {
    const call = await scrapes.call({
      ...key,
      accountId,
      requestId,
      fresh: false,
      row,
      body: item.input,
      ...(batch.max_age_days !== null && {
        maxAgeDays: batch.max_age_days,
        acceptedAtMs: Date.parse(batch.created_at),
      }),
    })
    const { outcome } = call
    switch (outcome) {
      case 'found':
      case 'empty':
      case 'target_not_found':
      case 'target_restricted':
        return await finishItem(itemOutcomes[outcome], call.billed ? row.priceMicros : 0, outcome)
      default:
        return await afterRefusal(refusalOf(outcome, call))
    }
  } catch (error) {
    if (error instanceof ApiError) return afterRefusal(error)
    throw error
  }
}

/** Records that batches are finished when all of their calls are. Idempotent. */
const finishBatches = async ({ runner, items }: Dependencies): Promise<void> => {
  for (;;) {
    const endedBatches = await items.ended(finishBatchSize)
    const recordedIds: ScrapeBatchId[] = []
    for (const { batch, tally } of endedBatches) {
      const { batch_id: batchId, account_id: account } = batch
      if (items.isGenuine(batch))
        await handle(
          runner,
          { ...system(), name: 'finish-scrape-batch', account },
          scrapeBatchRef(batchId),
          (state) => decideFinish(state, acceptedOf(batch), tally, batch.canceled_at !== null),
        )
      recordedIds.push(batchId)
    }
    if (recordedIds.length > 0) await items.finished(recordedIds)
    if (endedBatches.length < finishBatchSize) return
  }
}

export const batchWorker = worker({
  name: batchQueue.name,
  about: 'Makes the calls of scrape batches',
  trigger: { everyMs: 500, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Makes the calls of batches, up to eight of an account at once. Each call has its own `X-Request-Id`, so a repeated
 * call after a crash gets the same answer and is not billed again. Calls that fail temporarily are tried up to six
 * times in all.
 */
export const startBatchWorker = (dependencies: Dependencies): RunningQueue => {
  const { workers, items, clock } = dependencies
  let lastCleanupMs = Number.NEGATIVE_INFINITY
  return workers.start<BatchItem>({
    worker: batchWorker,
    queue: batchQueue,
    atOnce: { total: 64, each: 8 },
    longestMs,
    schedule: exponentialBackoff(2_000, 60_000),
    maxAttempts,
    pollMs: dependencies.pollMs,
    fill: async () => {
      await finishBatches(dependencies)
      if (!hasElapsed(lastCleanupMs, clock(), cleanupIntervalMs)) return
      await items.forget()
      lastCleanupMs = clock()
    },
    work: (item) => makeCall(dependencies, item),
  })
}
