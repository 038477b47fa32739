import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { CrashHooks } from '../crash.ts'
import { CommandOverload, type CommandRunner, type StreamRefs } from '../eventstore/commands/command.ts'
import type { Cause } from '../eventstore/event.ts'
import type { EventLog } from '../eventstore/port.ts'
import { depositStream, ledgerStream } from '../eventstore/streams.ts'
import { refuse } from '../http/errors.ts'
import { type AccountId, type CustomerId, type DepositId, depositIdOf } from '../ids.ts'
import { ledgerFold } from '../ledger/fold.ts'
import type { Orderable } from '../orders/orderable.ts'
import { type Gateways, GatewayUnavailable, type LiveGateway } from '../payments/port.ts'
import { floorCents, type Rail } from '../payments/rails.ts'
import { type Crediting, creditingOf } from './crediting.ts'
import { decideFailure, decideInvoice, decideOpen, decideReceipt, type ReportedInvoice } from './decide.ts'
import type { DepositDetails, PendingOrder } from './events.ts'
import { type Deposit, type DepositState, depositFold, isClosed } from './fold.ts'
import { watchDeposit } from './looks.ts'
import { claimDeposit, keepPayUrl, keepReturnUrl, readPages, releaseDeposit } from './pages.ts'

export type DepositRequest = {
  readonly accountId: AccountId
  /** Null: a top-up of the account's own wallet on the service's gateways. */
  readonly customerId: CustomerId | null
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
  /** It stood already under this key. */
  readonly replayed: boolean
  readonly position: number | null
}

export type Deposits = {
  /**
   * Opens a deposit with an invoice at the gateway, or answers the open one of its key; a closed one is followed by a
   * new one. A gateway that is down leaves it logged, and a retry goes on with it.
   * @throws ApiError: idempotency_conflict, deposits_not_available, gateway_unavailable; CommandOverload
   */
  open(request: DepositRequest, cause: Cause): Promise<OpenDeposit>
  /** The pay page of a deposit's invoice; null while it has none. */
  payUrlOf(depositId: DepositId): Promise<string | null>
  /** The deposit as the log has it now, or null. */
  read(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Asks the provider and takes the deposit on: what arrived is credited, what closed is closed. Safe to call at any
   * time and any number of times.
   * @throws GatewayUnavailable, CommandOverload
   */
  settle(depositId: DepositId, cause: Cause): Promise<DepositState>
  /** Applies what the provider said of the deposit's own invoice. */
  receive(depositId: DepositId, reported: ReportedInvoice, cause: Cause): Promise<DepositState>
  /** Closes a deposit that was never given an invoice. */
  abandon(depositId: DepositId, cause: Cause): Promise<DepositState>
}

/** A deposit that was logged and never invoiced is closed after this: the provider forgot its idempotency key by then. */
export const invoiceTimeMs = 23 * 60 * 60 * 1000
/** An invoice that is about to close is no more handed out. */
const lastMinuteMs = 60_000
/** Clocks of providers differ. */
const graceMs = 10 * 60_000
/** How long a request waits for another one that makes the same invoice. */
const claimWaits = 60
const claimWaitMs = 250
/** How many requests wait in this way for one gateway: a provider that hangs holds up no more of the service. */
const maxWaiting = 64
const maxDepositsAKey = 10_000
const maxPaymentsARun = 1_000

const noGateway = (rail: Rail, live: readonly Rail[]) => {
  const others = live.length === 0 ? 'no method has one' : `method must be one of ${live.join(', ')}`
  return refuse('deposits_not_available', `no live payment gateway serves "${rail}" here; ${others}`)
}

export const createDeposits = (deps: {
  readonly log: Pick<EventLog, 'lastOf'>
  readonly runner: CommandRunner
  readonly pool: pg.Pool
  readonly gateways: Gateways
  /** The address that callbacks of a gateway are sent to. */
  readonly callbackUrl: (gatewayId: string) => string
  /** Whether the product of an order can be ordered just now. */
  readonly orderable: Orderable
  readonly clock: () => number
  readonly logger: Logger
  readonly hooks: CrashHooks
}): Deposits => {
  const { log, runner, pool, gateways, callbackUrl, orderable, clock, logger, hooks } = deps

  const streamOf = (depositId: DepositId) => ({
    deposit: { stream: depositStream(depositId), fold: depositFold },
  })

  const read: Deposits['read'] = async (depositId, cause) => {
    const { answer } = await runner.run({
      name: 'read-deposit',
      streams: streamOf(depositId),
      decide: ({ deposit }) => ({ appends: [], answer: deposit }),
      ...cause,
    })
    return answer
  }

  const receive: Deposits['receive'] = async (depositId, reported, cause) => {
    let deposit = await read(depositId, cause)
    if (!deposit) return null
    const { details } = deposit
    const order = details.pending?.order
    const canOrder = order === undefined || (await orderable(order, cause))
    const crediting = creditingOf(details, canOrder) as Crediting<StreamRefs>
    for (let run = 0; run < maxPaymentsARun; run += 1) {
      const { answer } = await runner.run({
        name: 'receive-payment',
        streams: {
          ...crediting.streams,
          ...streamOf(depositId),
          ledger: { stream: ledgerStream(details.accountId), fold: ledgerFold },
        },
        decide: (states, { nowMs }) => decideReceipt(states as never, reported, crediting, nowMs),
        ...cause,
        account: details.accountId,
      })
      deposit = answer.deposit
      for (const paymentId of answer.unconfirmed)
        logger.error({ depositId, paymentId }, 'a payment was recorded and never confirmed: look it up')
      if (!answer.more) break
    }
    return deposit
  }

  const noteInvoice = async (
    { depositId, accountId }: DepositDetails,
    invoice: Parameters<typeof decideInvoice>[1],
    cause: Cause,
  ) =>
    runner.run({
      name: 'note-invoice',
      streams: streamOf(depositId),
      decide: ({ deposit }, { nowMs }) => decideInvoice(deposit, invoice, nowMs),
      ...cause,
      account: accountId,
    })

  const close = async (deposit: Deposit, reason: 'no_invoice' | 'gateway_removed', cause: Cause) => {
    const { depositId, accountId } = deposit.details
    const { answer } = await runner.run({
      name: 'fail-deposit',
      streams: streamOf(depositId),
      decide: (states, { nowMs }) => decideFailure(states.deposit, reason, nowMs),
      ...cause,
      account: accountId,
    })
    return answer
  }

  const settle: Deposits['settle'] = async (depositId, cause) => {
    const deposit = await read(depositId, cause)
    if (!deposit?.invoice) return deposit
    const live = await gateways.byId(deposit.details.gatewayId)
    if (!live) throw new GatewayUnavailable(`gateway ${deposit.details.gatewayId} is gone`)
    const { invoiceId, expiresAt } = deposit.invoice
    const report = await live.gateway.readInvoice({ invoiceId, depositId })
    if (report?.depositId !== depositId)
      throw new GatewayUnavailable(`${live.provider} does not know the invoice of ${depositId}`)
    if (report.currency !== 'usd') {
      logger.error({ depositId, currency: report.currency }, 'an invoice is not in USD: nothing is credited')
      return deposit
    }
    // Not every provider says when an invoice is over; money that still comes is credited all the same.
    const over = report.status === 'open' && Date.parse(expiresAt) + graceMs <= clock()
    return receive(depositId, over ? { ...report, status: 'expired' } : report, cause)
  }

  const waiting = new Map<string, number>()
  /** Waits until nobody else makes the deposit's invoice. */
  const claim = async (depositId: DepositId, gatewayId: string): Promise<void> => {
    if (await claimDeposit(pool, depositId)) return
    const others = waiting.get(gatewayId) ?? 0
    if (others >= maxWaiting) throw new CommandOverload('many requests wait for this gateway; try again', 2)
    waiting.set(gatewayId, others + 1)
    try {
      for (let wait = 0; wait < claimWaits; wait += 1) {
        await sleep(claimWaitMs)
        if (await claimDeposit(pool, depositId)) return
      }
      throw new CommandOverload('the invoice is being made; try again', 2)
    } finally {
      const left = (waiting.get(gatewayId) ?? 1) - 1
      if (left === 0) waiting.delete(gatewayId)
      else waiting.set(gatewayId, left)
    }
  }

  /** Makes the invoice of a logged deposit, one request at a time over all processes. */
  const invoice = async (deposit: Deposit, live: LiveGateway, cause: Cause) => {
    const { details } = deposit
    const { depositId, amountCents, rail, merchantName } = details
    await claim(depositId, live.gatewayId)
    try {
      const now = await read(depositId, cause)
      const pages = await readPages(pool, depositId)
      if (now?.invoice && pages?.payUrl) return { deposit: now, payUrl: pages.payUrl, position: null }
      await watchDeposit(pool, { ...details, openedAt: deposit.openedAt })
      const created = await live.gateway.createInvoice({
        depositId,
        amountCents,
        rail,
        merchantName,
        returnUrl: pages?.returnUrl ?? '',
        callbackUrl: callbackUrl(live.gatewayId),
      })
      hooks.at('invoice-made')
      await keepPayUrl(pool, depositId, created.payUrl)
      const { invoiceId, expiresAt, watchUntil } = created
      const { answer, position } = await noteInvoice(details, { invoiceId, expiresAt, watchUntil }, cause)
      return { deposit: answer as Deposit, payUrl: created.payUrl, position }
    } finally {
      await releaseDeposit(pool, depositId)
    }
  }

  /** The open deposit as it can be handed out; null when it is closed by now. */
  const goOn = async (deposit: Deposit, cause: Cause): Promise<OpenDeposit | null> => {
    const { depositId, gatewayId } = deposit.details
    const nowMs = clock()
    if (deposit.invoice) {
      const pages = await readPages(pool, depositId)
      const ending = Date.parse(deposit.invoice.expiresAt) - lastMinuteMs <= nowMs
      if (!ending && pages?.payUrl) return { deposit, payUrl: pages.payUrl, replayed: true, position: null }
      if (ending) {
        const now = await settle(depositId, cause)
        if (!now || isClosed(now)) return null
        if (pages?.payUrl) return { deposit: now, payUrl: pages.payUrl, replayed: true, position: null }
      }
    } else if (Date.parse(deposit.openedAt) + invoiceTimeMs <= nowMs) {
      await close(deposit, 'no_invoice', cause)
      return null
    }
    const live = await gateways.byId(gatewayId)
    if (!live) {
      await close(deposit, 'gateway_removed', cause)
      return null
    }
    return { ...(await invoice(deposit, live, cause)), replayed: true }
  }

  const openOnce = async (
    request: DepositRequest,
    depositId: DepositId,
    cause: Cause,
  ): Promise<OpenDeposit | null> => {
    const { accountId, customerId, rail, fingerprint, pending } = request
    const conflict = () =>
      refuse(
        'idempotency_conflict',
        'this Idempotency-Key stands for another request; send a new key for a new deposit',
      )
    const standing = await read(depositId, cause)
    if (standing) {
      if (standing.details.fingerprint !== fingerprint) throw conflict()
      return isClosed(standing) ? null : goOn(standing, cause)
    }
    const owner = customerId === null ? null : accountId
    const live = await gateways.forRail(owner, rail)
    if (!live) throw noGateway(rail, await gateways.liveRails(owner))
    const { gatewayId, provider, merchantName } = live
    const amountCents = Math.max(request.amountCents, floorCents(rail))
    await keepReturnUrl(pool, depositId, request.returnUrl)
    const { answer } = await runner.run({
      name: 'open-deposit',
      streams: streamOf(depositId),
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
    if (answer.kind === 'conflict') throw conflict()
    if (answer.kind === 'standing') return isClosed(answer.deposit) ? null : goOn(answer.deposit, cause)
    hooks.at('deposit-logged')
    return { ...(await invoice(answer.deposit, live, cause)), replayed: false }
  }

  /** What stood already and was only read: the position of its last event. */
  const placed = async (open: OpenDeposit): Promise<OpenDeposit> => {
    if (open.position !== null) return open
    const last = await log.lastOf(depositStream(open.deposit.details.depositId))
    return { ...open, position: last?.position ?? null }
  }

  return {
    payUrlOf: async (depositId) => (await readPages(pool, depositId))?.payUrl ?? null,
    read,
    receive,
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
        throw refuse(
          'gateway_unavailable',
          'the payment gateway did not answer; send the request again with the same Idempotency-Key',
        )
      }
    },
  }
}
