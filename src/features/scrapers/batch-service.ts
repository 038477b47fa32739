import { decideAccept, scrapeBatchRef } from '../../domain/scrapers/batches.ts'
import { comparableInput } from '../../domain/scrapers/check-input.ts'
import type { ScraperRow } from '../../domain/scrapers/scraper.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { requestDigest } from '../../kernel/digest.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type KeyId, type ScrapeBatchId, scrapeBatchIdOf } from '../../kernel/ids.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import { centsToMicros, dollarsOfMicros } from '../../kernel/money.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readStreamState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import {
  acceptedOf,
  type BatchItems,
  type BatchRow,
  type CountedBatch,
  type ShownItem,
} from './batch-items.ts'
import { type FinishedCall, isStored } from './call-answer.ts'
import type { CacheDays, ScrapeInput } from './provider-port.ts'
import { comparableBody, inputOf, type Scrapes } from './scrape.ts'

export type BatchRequest = {
  readonly accountId: AccountId
  readonly keyId: KeyId
  readonly requestId: string
  readonly row: ScraperRow
  readonly inputs: readonly Readonly<Record<string, unknown>>[]
  /** The accepted age of earlier answers of the account; if missing, every answer is fetched. */
  readonly maxAgeDays?: CacheDays | undefined
  /** The most that its calls may cost together, whole cents. */
  readonly maxCents?: number | undefined
}

type PlanRequest = Omit<BatchRequest, 'keyId' | 'requestId'>

/** What one input of a batch would cost. */
export type PlannedItem = {
  /** The number of the first equal input, from 1. */
  readonly call: number
  readonly input: ScrapeInput
  /** There is an answer that the batch accepts. */
  readonly cached: boolean
  /** 0 if it is cached or equal to an earlier input. */
  readonly costMicros: number
}

/** A batch with its calls, in order. */
export type ShownBatch = { readonly batch: BatchRow; readonly items: readonly ShownItem[] }

export const costOf = (plan: readonly PlannedItem[]): number =>
  plan.reduce((sum, { costMicros }) => sum + costMicros, 0)

export type ScrapeBatches = {
  /**
   * The cost of a batch that is not accepted, if each of its calls is billed.
   * @throws ApiError: bad_input, unknown_field (each names the input), scraper_unavailable, max_cents_exceeded
   */
  plan(request: PlanRequest): Promise<readonly PlannedItem[]>
  /**
   * Accepts a batch, or returns the existing one with its id.
   * @throws ApiError: bad_input, unknown_field (each names the input), idempotency_conflict, scraper_unavailable,
   * max_cents_exceeded
   */
  accept(
    request: BatchRequest,
    cause: Cause,
  ): Promise<ShownBatch & { readonly position: number | null; readonly isNew: boolean }>
  /** Whether a batch was accepted under this id. */
  isKnown(accountId: AccountId, requestId: string): Promise<boolean>
  /** Null: the account has no such batch, or it finished more than a day ago. */
  find(accountId: AccountId, batchId: string): Promise<ShownBatch | null>
  /** Readable batches of an account, newest first. */
  list(
    accountId: AccountId,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ readonly batches: readonly CountedBatch[]; readonly total: number }>
  /** Starts no more calls of a batch. Calls in progress finish and are billed. Null: as in `find`. */
  cancel(accountId: AccountId, batchId: string): Promise<ShownBatch | null>
  /** The n-th call, from 1, as for a repeated request; null if it has no result, or if that is no longer stored. */
  result(accountId: AccountId, batchId: string, n: number): Promise<FinishedCall | null>
}

/** `canceling`: calls that were in progress at the cancellation still run. */
export const batchStatuses = ['running', 'canceling', 'finished', 'canceled'] as const

export const statusOf = ({
  finished_at: finished,
  canceled_at: canceled,
}: Pick<BatchRow, 'finished_at' | 'canceled_at'>): (typeof batchStatuses)[number] => {
  if (canceled === null) return finished === null ? 'running' : 'finished'
  return finished === null ? 'canceling' : 'canceled'
}

/** The `X-Request-Id` of a batch call. It is unique to the call, so that retries make and bill the call once. */
export const itemRequestId = (batchId: ScrapeBatchId, n: number): string => `${batchId}.${n}`

const conflict = () =>
  refuse(
    'idempotency_conflict',
    'this X-Request-Id or Idempotency-Key was used before with another batch; send a new one for a new batch',
  )

const fingerprintOf = ({ row, inputs, maxAgeDays }: BatchRequest): string =>
  requestDigest([
    row.platform,
    row.operation,
    inputs.map((input) => comparableBody(row, input)),
    ...(maxAgeDays ? [maxAgeDays] : []),
  ])

/** For each input the number of the first equal one, from 1. */
const callsOf = (row: ScraperRow, inputs: readonly ScrapeInput[]): readonly number[] => {
  const texts = inputs.map((input) => canonicalJson(comparableInput(row, input)))
  return texts.map((text) => texts.indexOf(text) + 1)
}

const form = /^scb_[0-9a-f]{32}$/

export const createScrapeBatches = (dependencies: {
  readonly runner: CommandRunner
  readonly log: EventLog
  readonly items: BatchItems
  readonly scrapes: Pick<Scrapes, 'cached' | 'finished' | 'requireProvider'>
  readonly clock: Clock
}): ScrapeBatches => {
  const { runner, log, items, scrapes, clock } = dependencies

  const find: ScrapeBatches['find'] = async (accountId, batchId) => {
    const batch = form.test(batchId) ? await items.batch(batchId as ScrapeBatchId) : null
    if (batch === null || batch.account_id !== accountId) return null
    return { batch, items: await items.list(batch.batch_id) }
  }

  const planAt = async (
    { accountId, row, inputs, maxAgeDays }: PlanRequest,
    atMs: number,
  ): Promise<readonly PlannedItem[]> => {
    const checked = inputs.map((input, at) => inputOf(row, input, `input ${at + 1}: `))
    const calls = callsOf(row, checked)
    const cached = await scrapes.cached(accountId, row, checked, maxAgeDays, atMs)
    return checked.map((input, at) => {
      const call = calls[at]!
      const isFree = cached[at] === true || call !== at + 1
      return { call, input, cached: cached[at] === true, costMicros: isFree ? 0 : row.priceMicros }
    })
  }

  /** @throws ApiError: scraper_unavailable, max_cents_exceeded */
  const refuseUnlessPossible = (
    { row, maxCents }: PlanRequest,
    plan: readonly PlannedItem[],
  ): readonly PlannedItem[] => {
    if (plan.some(({ cached }) => !cached)) scrapes.requireProvider(row)
    const costMicros = costOf(plan)
    if (maxCents !== undefined && costMicros > centsToMicros(maxCents)) {
      const costUsd = dollarsOfMicros(costMicros)
      throw refuse('max_cents_exceeded', `the batch could cost $${costUsd}, more than maxCents allows`, {
        costUsd,
        maxCents,
      })
    }
    return plan
  }

  return {
    plan: async (request) => refuseUnlessPossible(request, await planAt(request, clock())),

    isKnown: async (accountId, requestId) =>
      (await readStreamState(log, scrapeBatchRef(scrapeBatchIdOf(accountId, requestId)))).state !== null,

    find,

    list: items.page,

    cancel: async (accountId, batchId) => {
      const found = await find(accountId, batchId)
      if (found === null) return null
      await items.cancel(found.batch.batch_id)
      return find(accountId, batchId)
    },

    accept: async (request, cause) => {
      const { accountId, keyId, requestId, row, inputs, maxAgeDays = null } = request
      const { platform, operation } = row
      const batchId = scrapeBatchIdOf(accountId, requestId)
      const fingerprint = fingerprintOf(request)
      // The log stores the id permanently but not the inputs. So the inputs are stored first, and the event is appended
      // second.
      const { state } = await readStreamState(log, scrapeBatchRef(batchId))
      if (state !== null && state.accepted.fingerprint !== fingerprint) throw conflict()
      if (state?.finished && (await items.batch(batchId)) === null)
        throw refuse(
          'result_expired',
          'this X-Request-Id or Idempotency-Key named a batch that ended more than a day ago and its results have expired; send a new one for a new batch',
        )
      const nowMs = clock()
      const isKnown = state !== null || (await items.batch(batchId)) !== null
      const plan = await planAt(request, nowMs)
      // A known batch runs already, whatever its scraper and its cost are now.
      if (!isKnown) refuseUnlessPossible(request, plan)
      const ids = { batch_id: batchId, account_id: accountId, key_id: keyId, request_id: requestId }
      const storedBatch = await items.store(
        {
          ...ids,
          ...{ platform, operation, fingerprint },
          calls: plan.map(({ call }) => call),
          inputs: inputs.length,
          max_age_days: maxAgeDays,
          created_at: isoTime(nowMs),
        },
        inputs,
      )
      if (storedBatch.fingerprint !== fingerprint) throw conflict()
      const acceptance = await handle(
        runner,
        { ...cause, name: 'accept-scrape-batch', account: accountId },
        scrapeBatchRef(batchId),
        (acceptedState) => decideAccept(acceptedState, acceptedOf(storedBatch)),
      )
      if (acceptance.outcome === 'refused') throw conflict()
      return {
        batch: storedBatch,
        items: await items.list(batchId),
        position: acceptance.position,
        isNew: acceptance.isNew,
      }
    },

    result: async (accountId, batchId, n) => {
      const found = await find(accountId, batchId)
      const call = found?.batch.calls[n - 1]
      if (!found || call === undefined) return null
      const finished = await scrapes.finished(accountId, itemRequestId(found.batch.batch_id, call))
      return finished !== null && isStored(finished) ? finished : null
    },
  }
}
