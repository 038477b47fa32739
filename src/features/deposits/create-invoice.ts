import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { decideInvoice } from '../../domain/deposits/decide.ts'
import type { Deposit } from '../../domain/deposits/fold.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { Cause } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { createTally } from '../../kernel/tally.ts'
import { CommandOverload, type CommandRunner } from '../../platform/commands/command.ts'
import type { LiveGateway } from '../payments/index.ts'
import { claimDeposit, type DepositPages, releaseDeposit } from './deposit-urls.ts'
import { schedulePolling } from './poll-schedule.ts'
import { type DepositSettlement, depositRef } from './settle-deposit.ts'

/** A deposit with its invoice; `position` of the event with the invoice, null if the invoice already existed. */
type InvoicedDeposit = {
  readonly deposit: Deposit
  readonly payUrl: string
  /** Another request created the invoice. */
  readonly replayed: boolean
  readonly position: number | null
}

/**
 * Creates the invoice of a logged deposit, or returns the one that another request created meanwhile.
 * @param returnUrl the page to which the payer returns, unless an earlier request for the same deposit set one
 * @throws GatewayUnavailable, CommandOverload
 */
type CreateInvoice = (
  deposit: Deposit,
  liveGateway: LiveGateway,
  returnUrl: string,
  cause: Cause,
) => Promise<InvoicedDeposit>

/** How many times a request waits for another one that creates the same invoice. */
const claimWaits = 60
const claimWaitMs = 250
/**
 * Waits until no other request, in any process, creates the deposit's invoice.
 * @param maxWaiting concurrently waiting requests of a gateway, so that a hanging provider blocks only this number
 * @throws CommandOverload
 */
export const createClaim = (
  pool: pg.Pool,
  maxWaiting = 64,
): ((depositId: DepositId, gatewayId: string) => Promise<void>) => {
  const waiting = createTally<string>()
  return async (depositId, gatewayId) => {
    if (await claimDeposit(pool, depositId)) return
    if (waiting.of(gatewayId) >= maxWaiting)
      throw new CommandOverload('many requests wait for this gateway; try again', 2)
    waiting.add(gatewayId)
    try {
      for (let wait = 0; wait < claimWaits; wait += 1) {
        await sleep(claimWaitMs)
        if (await claimDeposit(pool, depositId)) return
      }
      throw new CommandOverload('the invoice is being made; try again', 2)
    } finally {
      waiting.remove(gatewayId)
    }
  }
}

export const createInvoiceFactory = (dependencies: {
  readonly runner: CommandRunner
  readonly pool: pg.Pool
  readonly pages: DepositPages
  readonly read: DepositSettlement['read']
  /** The callback URL of a gateway. */
  readonly callbackUrl: (gatewayId: string) => string
  readonly hooks: CrashHooks
}): CreateInvoice => {
  const { runner, pool, pages, read, callbackUrl, hooks } = dependencies
  const claim = createClaim(pool)

  const note = (
    { details: { depositId, accountId } }: Deposit,
    invoice: Parameters<typeof decideInvoice>[1],
    cause: Cause,
  ) =>
    runner.run({
      name: 'note-invoice',
      streams: depositRef(depositId),
      decide: ({ deposit }, { nowMs }) => decideInvoice(deposit, invoice, nowMs),
      ...cause,
      account: accountId,
    })

  return async (deposit, liveGateway, requestedUrl, cause) => {
    const { details } = deposit
    const { depositId, amountCents, owedCents, rail, merchantName } = details
    await claim(depositId, liveGateway.gatewayId)
    try {
      const now = await read(depositId, cause)
      const storedPage = await pages.read(details)
      if (now?.invoice && storedPage?.payUrl)
        return { deposit: now, payUrl: storedPage.payUrl, replayed: true, position: null }
      const returnUrl = await pages.keepReturnUrl(details, requestedUrl)
      await schedulePolling(pool, { ...details, openedAt: deposit.openedAt })
      const created = await liveGateway.gateway.createInvoice({
        depositId,
        amountCents,
        owedCents,
        rail,
        merchantName,
        returnUrl,
        callbackUrl: callbackUrl(liveGateway.gatewayId),
      })
      hooks.at('invoice-made')
      await pages.keepPayUrl(details, { returnUrl, payUrl: created.payUrl })
      const { invoiceId, expiresAt, watchUntil } = created
      const { answer, position } = await note(deposit, { invoiceId, expiresAt, watchUntil }, cause)
      return { deposit: answer as Deposit, payUrl: created.payUrl, replayed: position === null, position }
    } finally {
      await releaseDeposit(pool, depositId)
    }
  }
}
