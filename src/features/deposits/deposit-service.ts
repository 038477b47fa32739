import type pg from 'pg'
import type { Logger } from 'pino'
import { decideOpen } from '../../domain/deposits/decide.ts'
import type { PendingOrder } from '../../domain/deposits/events.ts'
import { type Deposit, type DepositState, isClosed } from '../../domain/deposits/fold.ts'
import { customerPurse, ledgerRef } from '../../domain/ledger/fold.ts'
import { floorCents, type Rail } from '../../domain/payments/payments.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type CustomerId, type DepositId, depositIdOf } from '../../kernel/ids.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { createRateLimiter } from '../../platform/http/rate-limiter.ts'
import { keyConflict } from '../../platform/http/route.ts'
import type { Orderable } from '../catalog/index.ts'
import { type Gateways, GatewayUnavailable } from '../payments/index.ts'
import { createInvoiceFactory } from './create-invoice.ts'
import type { DepositPages } from './deposit-urls.ts'
import { createDepositSettlement, type DepositSettlement, depositRef } from './settle-deposit.ts'

/**
 * Limits how many new deposits an account may open. An unpaid deposit costs the payer nothing, but it creates an
 * invoice at the provider, stays in the log, and is polled until its provider no longer watches it.
 */
type OpeningLimits = {
  /**
   * Counts a new deposit, not a retry of one.
   * @param own true: for the account's wallet, by the service's gateways; false: for its customer, by its own gateways
   * @throws ApiError: rate_limited
   */
  take(accountId: AccountId, own: boolean): void
}

/** A hundred at once, then one per minute. */
const ownRate = { burst: 6_000, perSecond: 1 }
const ownCost = 60
/** For shops with many customers: five hundred at once, then ten per second, the limit of its gateways' callbacks. */
const customersRate = { burst: 500, perSecond: 10 }

export const createOpeningLimits = (monotonicMs: MonotonicClock): OpeningLimits => {
  const ownLimiter = createRateLimiter(ownRate, monotonicMs)
  const customerLimiter = createRateLimiter(customersRate, monotonicMs)
  return {
    take: (accountId, isOwn) => {
      const waitS = isOwn ? ownLimiter.take(accountId, ownCost) : customerLimiter.take(accountId)
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

/** Used if requests are not limited. */
export const noOpeningLimits: OpeningLimits = { take: () => undefined }

export type DepositRequest = {
  readonly accountId: AccountId
  /** Null: a top-up of the account's own wallet by the service's gateways. */
  readonly customerId: CustomerId | null
  /** Creates the relation to the customer. Called after all checks, before the deposit is logged. */
  readonly relate?: () => Promise<void>
  readonly idempotencyKey: string
  /** A retry under the same key must have the same one. */
  readonly fingerprint: string
  /** Whole cents from 1 to the maximum. The invoiced amount is raised to the rail's minimum. */
  readonly amountCents: number
  readonly rail: Rail
  /** The https page to which the payer returns. */
  readonly returnUrl: string
  /** The order that is placed once the deposit is paid; null for a deposit without an order. */
  readonly pending: PendingOrder | null
  /** The invoice that the order waits for: earlier ones are not returned. Absent: there is none yet. */
  readonly current?: DepositId | undefined
}

/** An open deposit with its pay page. */
type OpenDeposit = {
  readonly deposit: Deposit
  readonly payUrl: string
  /** An earlier request under this key created the invoice. */
  readonly replayed: boolean
  readonly position: number | null
}

export type Deposits = Omit<DepositSettlement, 'close'> & {
  /**
   * Opens a deposit with an invoice at the gateway, or returns the open one of its key. A closed one, one by another
   * method and one of less than the amount are followed by a new one. If the gateway is down, the deposit stays logged and a retry continues it.
   * @throws ApiError: idempotency_conflict, deposits_not_available, rate_limited, gateway_unavailable; CommandOverload
   */
  open(request: DepositRequest, cause: Cause): Promise<OpenDeposit>
  /**
   * Creates the invoice of a logged deposit, or returns the existing one. Null: the deposit is closed by now.
   * @throws GatewayUnavailable, CommandOverload
   */
  invoice(deposit: Deposit, returnUrl: string, cause: Cause): Promise<OpenDeposit | null>
  /** The pay page of a deposit's invoice; null without an invoice. */
  payUrlOf(deposit: Deposit): Promise<string | null>
  /** Closes a deposit that never had an invoice. */
  abandon(depositId: DepositId, cause: Cause): Promise<DepositState>
}

/** A deposit without an invoice is closed after this time. The provider has expired its idempotency key by then. */
export const invoiceTimeMs = 23 * 60 * 60 * 1000
/** An invoice that is about to expire is checked before it is returned. */
const lastMinuteMs = 60_000
const maxDepositsAKey = 10_000
/** Retry-After if a gateway did not answer, seconds. */
const gatewayRetryS = 5

const noGateway = (rail: Rail, availableRails: readonly Rail[]) => {
  const alternatives =
    availableRails.length === 0 ? 'no method has one' : `method must be one of ${availableRails.join(', ')}`
  return refuse('deposits_not_available', `no live payment gateway serves "${rail}" here; ${alternatives}`)
}

export const createDeposits = (dependencies: {
  readonly log: Pick<EventLog, 'lastOf'>
  readonly runner: CommandRunner
  readonly pool: pg.Pool
  readonly pages: DepositPages
  readonly gateways: Gateways
  readonly openingLimits: OpeningLimits
  /** The callback URL of a gateway. */
  readonly callbackUrl: (gatewayId: string) => string
  /** Whether the product of an order can be ordered now. */
  readonly orderable: Orderable
  readonly clock: () => number
  readonly logger: Logger
  readonly hooks: CrashHooks
}): Deposits => {
  const { log, runner, pages, gateways, openingLimits, clock, logger, hooks } = dependencies
  const { read, receive, report, settle, cancel, close } = createDepositSettlement(dependencies)
  const invoice = createInvoiceFactory({ ...dependencies, read })

  /** The open deposit with its pay page; null if it is closed by now. */
  const continueOpening: Deposits['invoice'] = async (deposit, returnUrl, cause) => {
    const { depositId, gatewayId } = deposit.details
    const nowMs = clock()
    if (deposit.invoice) {
      const payUrl = (await pages.read(deposit.details))?.payUrl
      // Its pay page is unknown. A new invoice replaces it; payments of the old one are also credited.
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
    const liveGateway = await gateways.byId(gatewayId)
    if (!liveGateway) {
      await close(deposit, 'gateway_removed', cause)
      return null
    }
    return invoice(deposit, liveGateway, returnUrl, cause)
  }

  const openOnce = async (
    request: DepositRequest,
    depositId: DepositId,
    cause: Cause,
  ): Promise<OpenDeposit | null> => {
    const { accountId, customerId, rail, fingerprint, pending } = request
    const amountCents = Math.max(request.amountCents, floorCents(rail))
    const continueOpen = async (deposit: Deposit): Promise<OpenDeposit | null> => {
      const { details } = deposit
      const serves = details.rail === rail && details.amountCents === amountCents
      return isClosed(deposit) || !serves ? null : continueOpening(deposit, request.returnUrl, cause)
    }
    const existing = await read(depositId, cause)
    if (existing) {
      if (existing.details.fingerprint !== fingerprint) throw keyConflict()
      return continueOpen(existing)
    }
    const owner = customerId === null ? null : accountId
    const liveGateway = await gateways.forRail(owner, rail)
    if (!liveGateway) throw noGateway(rail, await gateways.liveRails(owner))
    openingLimits.take(accountId, owner === null)
    const { gatewayId, provider, merchantName } = liveGateway
    await request.relate?.()
    const { answer } = await runner.run({
      name: 'open-deposit',
      streams: { ...depositRef(depositId), ledger: ledgerRef(accountId) },
      decide: ({ deposit, ledger }, { nowMs }) => {
        const payer = customerId === null ? ledger : customerPurse(ledger, customerId)
        const owedCents = microsToCentsCeil(payer.receivableMicros)
        return decideOpen(
          deposit,
          {
            depositId,
            accountId,
            customerId,
            rail,
            amountCents,
            ...(owedCents > 0 && { owedCents }),
            gatewayId,
            provider,
            merchantName,
            fingerprint,
            pending,
          },
          nowMs,
        )
      },
      ...cause,
      account: accountId,
    })
    if (answer.kind === 'conflict') throw keyConflict()
    if (answer.kind === 'standing') return continueOpen(answer.deposit)
    hooks.at('deposit-logged')
    return invoice(answer.deposit, liveGateway, request.returnUrl, cause)
  }

  /** For a deposit that was only read: adds the position of its last event. */
  const withPosition = async (open: OpenDeposit): Promise<OpenDeposit> => {
    if (open.position !== null) return open
    const last = await log.lastOf(depositStream(open.deposit.details.depositId))
    return { ...open, position: last?.position ?? null }
  }

  return {
    invoice: continueOpening,
    payUrlOf: async ({ details }) => (await pages.read(details))?.payUrl ?? null,
    read,
    receive,
    report,
    settle,
    cancel,
    abandon: async (depositId, cause) => {
      const deposit = await read(depositId, cause)
      return deposit && close(deposit, 'no_invoice', cause)
    },
    open: async (request, cause) => {
      const { accountId, customerId, idempotencyKey } = request
      try {
        let isEarlier = request.current !== undefined
        for (let n = 0; n < maxDepositsAKey; n += 1) {
          const depositId = depositIdOf(accountId, customerId, idempotencyKey, n)
          isEarlier &&= depositId !== request.current
          const open = isEarlier ? null : await openOnce(request, depositId, cause)
          if (open) return withPosition(open)
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
