import type pg from 'pg'
import type { Logger } from 'pino'
import { decideOpen } from '../../domain/deposits/decide.ts'
import type { PendingOrder } from '../../domain/deposits/events.ts'
import { type Deposit, type DepositState, isClosed } from '../../domain/deposits/fold.ts'
import { floorCents, type Rail } from '../../domain/payments/payments.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type CustomerId, type DepositId, depositIdOf } from '../../kernel/ids.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { keyConflict } from '../../platform/http/idempotency.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'
import type { Orderable } from '../catalog/index.ts'
import { type Gateways, GatewayUnavailable } from '../payments/index.ts'
import { createInvoiceFactory } from './create-invoice.ts'
import type { DepositPages } from './deposit-urls.ts'
import { createDepositSettlement, type DepositSettlement, depositRef } from './settle-deposit.ts'

/**
 * How many new deposits an account may open. One that nobody pays costs nothing, and yet has an invoice made at the
 * provider, stays in the log and is asked for until its provider watches it no more.
 */
export type OpeningLimits = {
  /**
   * Counts a new deposit, not a retry of one. `own`: for the account's own wallet, on the service's gateways; else for a
   * customer of it, on its own gateways.
   * @throws ApiError: rate_limited
   */
  take(accountId: AccountId, own: boolean): void
}

/** A hundred at once, then one a minute. */
const ownRate = { burst: 6_000, perSecond: 1 }
const ownCost = 60
/** A shop of many customers: five hundred at once, then ten a second, as its gateways may call back. */
const customersRate = { burst: 500, perSecond: 10 }

export const createOpeningLimits = (monotonicMs: MonotonicClock): OpeningLimits => {
  const own = createRateLimiter(ownRate, monotonicMs)
  const customers = createRateLimiter(customersRate, monotonicMs)
  return {
    take: (accountId, isOwn) => {
      const waitS = isOwn ? own.take(accountId, ownCost) : customers.take(accountId)
      if (waitS > 0)
        throw refuseWithRetryAfter(
          'rate_limited',
          isOwn
            ? 'the account opened many deposits; pay those that await payment, or send this one again later'
            : 'the account opened many deposits for its customers; send this one again later',
          waitS,
        )
    },
  }
}

/** Where requests are not limited. */
export const noOpeningLimits: OpeningLimits = { take: () => undefined }

export type DepositRequest = {
  readonly accountId: AccountId
  /** Null: a top-up of the account's own wallet on the service's gateways. */
  readonly customerId: CustomerId | null
  /** Makes the relation to the customer: called once nothing refuses the deposit, before it is logged. */
  readonly relate?: () => Promise<void>
  readonly idempotencyKey: string
  /** What a retry under the same key must ask for again. */
  readonly fingerprint: string
  /** Whole cents from 1 to the maximum; what is invoiced is raised to the rail's floor. */
  readonly amountCents: number
  readonly rail: Rail
  /** https; where the payer lands afterwards. */
  readonly returnUrl: string
  /** The order that is placed when it is paid; null for a deposit of its own. */
  readonly pending: PendingOrder | null
}

/** An open deposit with its pay page. */
export type OpenDeposit = {
  readonly deposit: Deposit
  readonly payUrl: string
  /** An earlier request under this key made the invoice. */
  readonly replayed: boolean
  readonly position: number | null
}

export type Deposits = Omit<DepositSettlement, 'close'> & {
  /**
   * Opens a deposit with an invoice at the gateway, or answers the open one of its key; a closed one is followed by a
   * new one. A gateway that is down leaves it logged, and a retry goes on with it.
   * @throws ApiError: idempotency_conflict, deposits_not_available, rate_limited, gateway_unavailable; CommandOverload
   */
  open(request: DepositRequest, cause: Cause): Promise<OpenDeposit>
  /** The pay page of a deposit's invoice; null while it has none. */
  payUrlOf(deposit: Deposit): Promise<string | null>
  /** Closes a deposit that was never given an invoice. */
  abandon(depositId: DepositId, cause: Cause): Promise<DepositState>
}

/** A deposit that was logged and never invoiced is closed after this: the provider forgot its idempotency key by then. */
export const invoiceTimeMs = 23 * 60 * 60 * 1000
/** An invoice that is about to close is no more handed out. */
const lastMinuteMs = 60_000
const maxDepositsAKey = 10_000
/** When to come back after a gateway that did not answer. */
const gatewayRetryS = 5

const noGateway = (rail: Rail, live: readonly Rail[]) => {
  const others = live.length === 0 ? 'no method has one' : `method must be one of ${live.join(', ')}`
  return refuse('deposits_not_available', `no live payment gateway serves "${rail}" here; ${others}`)
}

export const createDeposits = (deps: {
  readonly log: Pick<EventLog, 'lastOf'>
  readonly runner: CommandRunner
  readonly pool: pg.Pool
  readonly pages: DepositPages
  readonly gateways: Gateways
  readonly openingLimits: OpeningLimits
  /** The address that callbacks of a gateway are sent to. */
  readonly callbackUrl: (gatewayId: string) => string
  /** Whether the product of an order can be ordered just now. */
  readonly orderable: Orderable
  readonly clock: () => number
  readonly logger: Logger
  readonly hooks: CrashHooks
}): Deposits => {
  const { log, runner, pages, gateways, openingLimits, clock, logger, hooks } = deps
  const { read, receive, report, settle, close } = createDepositSettlement(deps)
  const invoice = createInvoiceFactory({ ...deps, read })

  /** The open deposit as it can be handed out; null when it is closed by now. */
  const goOn = async (
    deposit: Deposit,
    { returnUrl }: DepositRequest,
    cause: Cause,
  ): Promise<OpenDeposit | null> => {
    const { depositId, gatewayId } = deposit.details
    const nowMs = clock()
    if (deposit.invoice) {
      const payUrl = (await pages.read(deposit.details))?.payUrl
      // Its page is not known: another invoice takes its place, and what is paid on this one is credited too.
      if (!payUrl) return null
      const ending = Date.parse(deposit.invoice.expiresAt) - lastMinuteMs <= nowMs
      if (!ending) return { deposit, payUrl, replayed: true, position: null }
      const now = await settle(depositId, cause)
      if (!now || isClosed(now)) return null
      return { deposit: now, payUrl, replayed: true, position: null }
    }
    if (Date.parse(deposit.openedAt) + invoiceTimeMs <= nowMs) {
      await close(deposit, 'no_invoice', cause)
      return null
    }
    const live = await gateways.byId(gatewayId)
    if (!live) {
      await close(deposit, 'gateway_removed', cause)
      return null
    }
    return invoice(deposit, live, returnUrl, cause)
  }

  const openOnce = async (
    request: DepositRequest,
    depositId: DepositId,
    cause: Cause,
  ): Promise<OpenDeposit | null> => {
    const { accountId, customerId, rail, fingerprint, pending } = request
    const standing = await read(depositId, cause)
    if (standing) {
      if (standing.details.fingerprint !== fingerprint) throw keyConflict()
      return isClosed(standing) ? null : goOn(standing, request, cause)
    }
    const owner = customerId === null ? null : accountId
    const live = await gateways.forRail(owner, rail)
    if (!live) throw noGateway(rail, await gateways.liveRails(owner))
    openingLimits.take(accountId, owner === null)
    const { gatewayId, provider, merchantName } = live
    const amountCents = Math.max(request.amountCents, floorCents(rail))
    await request.relate?.()
    const { answer } = await runner.run({
      name: 'open-deposit',
      streams: depositRef(depositId),
      decide: ({ deposit }, { nowMs }) =>
        decideOpen(
          deposit,
          {
            depositId,
            accountId,
            customerId,
            rail,
            amountCents,
            gatewayId,
            provider,
            merchantName,
            fingerprint,
            pending,
          },
          nowMs,
        ),
      ...cause,
      account: accountId,
    })
    if (answer.kind === 'conflict') throw keyConflict()
    if (answer.kind === 'standing')
      return isClosed(answer.deposit) ? null : goOn(answer.deposit, request, cause)
    hooks.at('deposit-logged')
    return invoice(answer.deposit, live, request.returnUrl, cause)
  }

  /** What stood already and was only read: the position of its last event. */
  const placed = async (open: OpenDeposit): Promise<OpenDeposit> => {
    if (open.position !== null) return open
    const last = await log.lastOf(depositStream(open.deposit.details.depositId))
    return { ...open, position: last?.position ?? null }
  }

  return {
    payUrlOf: async ({ details }) => (await pages.read(details))?.payUrl ?? null,
    read,
    receive,
    report,
    settle,
    abandon: async (depositId, cause) => {
      const deposit = await read(depositId, cause)
      return deposit && close(deposit, 'no_invoice', cause)
    },
    open: async (request, cause) => {
      const { accountId, customerId, idempotencyKey } = request
      try {
        for (let n = 0; n < maxDepositsAKey; n += 1) {
          const open = await openOnce(request, depositIdOf(accountId, customerId, idempotencyKey, n), cause)
          if (open) return placed(open)
        }
        throw new Error(`a key of ${accountId} has had ${maxDepositsAKey} deposits`)
      } catch (error) {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, accountId }, 'a payment gateway did not make an invoice')
        throw refuseWithRetryAfter(
          'gateway_unavailable',
          'the payment gateway did not answer; send the request again with the same Idempotency-Key',
          gatewayRetryS,
        )
      }
    },
  }
}
