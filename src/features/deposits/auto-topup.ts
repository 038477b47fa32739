import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import { decideInvoice } from '../../domain/deposits/decide.ts'
import { isClosed } from '../../domain/deposits/fold.ts'
import {
  decidePause,
  decideRemoval,
  decideSaved,
  decideSettings,
  decideTopup,
  decideTopupDeposit,
  decideTopupFailure,
  decideTopupPaid,
  nextDepositId,
  type OpenTopup,
  type SavedMethod,
  type TopupFailureReason,
  type TopupGateway,
  type TopupMethod,
  type TopupSettings,
  type TopupState,
  topupRef,
} from '../../domain/deposits/topups.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { CommandDecision } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { type CommandRunner, readState } from '../../platform/commands/command.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { worklist, worklistRound } from '../../platform/work/worklist.ts'
import { type Gateways, GatewayUnavailable, type LiveGateway } from '../payments/index.ts'
import type { Deposits } from './deposit-service.ts'
import { depositRef } from './settle-deposit.ts'

const actor = { kind: 'system', name: 'auto-topups' } as const
const newCause = (): Cause => ({ actor, correlationId: newId('run') })

/** The automatic top-up of a wallet, as the log has it. */
export const readTopup = (runner: CommandRunner, accountId: AccountId, cause: Cause): Promise<TopupState> =>
  readState(runner, { ...cause, name: 'read-topup' }, topupRef(accountId))

/** The streams that show whether automatic top-up must pause. */
const incidentRefs = (account: AccountId) => ({
  topup: topupRef(account),
  ledger: ledgerRef(account),
  account: accountRef(account),
})

/** Pauses the automatic top-up of a wallet if a refund, a dispute or a block requires it. Returns its state. */
const pauseTopup = async (
  { runner }: { readonly runner: CommandRunner },
  account: AccountId,
  cause: Cause,
): Promise<TopupState> => {
  const { answer } = await runner.run({
    name: 'pause-auto-topup',
    streams: incidentRefs(account),
    decide: (states, { nowMs }) => decidePause(states, account, nowMs),
    ...cause,
    account,
  })
  return answer
}

/** A card is charged only at the account of the service at which it was saved. */
const gatewayOf = (live: LiveGateway | null): TopupGateway | null =>
  live?.provider === 'stripe' && live.owner === null && live.gateway.cards ? topupGateway('card', live) : null

const topupGateway = (
  rail: TopupMethod,
  { gatewayId, provider, merchantName }: LiveGateway,
): TopupGateway => ({ rail, gatewayId, provider, merchantName })

/** The gateway of the service that makes the invoices of top-ups; null without one. */
const invoiceGateway = async (gateways: Pick<Gateways, 'forRail'>): Promise<TopupGateway | null> => {
  const live = await gateways.forRail(null, 'crypto')
  return live && topupGateway('crypto', live)
}

/** Removes a card at the provider. Farebox never charges it again in any case. */
const removeCard = async (
  { gateways, logger }: { readonly gateways: Pick<Gateways, 'byId'>; readonly logger: Logger },
  method: SavedMethod,
): Promise<void> => {
  try {
    await (await gateways.byId(method.gatewayId))?.gateway.cards?.remove(method)
  } catch (error) {
    if (!(error instanceof GatewayUnavailable)) throw error
    logger.warn({ err: error }, 'a payment gateway did not remove a saved card')
  }
}

/** Saves the card that a payer saved on the page of the provider. Returns the outcome, for the inbox. */
export const saveCard = async (
  dependencies: {
    readonly runner: CommandRunner
    readonly gateways: Pick<Gateways, 'byId'>
    readonly logger: Logger
  },
  live: LiveGateway,
  {
    accountId,
    card,
  }: { readonly accountId: string | null; readonly card: Omit<SavedMethod, 'gatewayId'> | null },
): Promise<string> => {
  if (live.owner !== null || card === null || !/^acc_[0-9a-f]{32}$/.test(accountId ?? ''))
    return 'no card is saved'
  const account = accountId as AccountId
  type Saved = { readonly outcome: string; readonly replaced: SavedMethod | null }
  const { answer } = await dependencies.runner.run({
    name: 'save-payment-method',
    streams: { topup: topupRef(account), account: accountRef(account) },
    decide: ({ topup, account: owner }): CommandDecision<Saved> => {
      if (owner === null)
        return { appends: [], answer: { outcome: 'no account has this id', replaced: null } }
      const { appends, answer: outcome } = decideSaved(topup, account, { ...card, gatewayId: live.gatewayId })
      return { appends, answer: { outcome, replaced: outcome === 'saved' ? topup.method : null } }
    },
    ...newCause(),
    account,
  })
  if (answer.replaced !== null && answer.replaced.methodReference !== card.methodReference)
    await removeCard(dependencies, answer.replaced)
  return answer.outcome
}

type AutoTopupDependencies = {
  readonly runner: CommandRunner
  readonly gateways: Pick<Gateways, 'byId' | 'forRail'>
  readonly logger: Logger
}

/** What customers do with their automatic top-up. */
export type AutoTopups = {
  read(accountId: AccountId, cause: Cause): Promise<TopupState>
  /** The provider's page that saves a card. @throws ApiError: deposits_not_available, gateway_unavailable */
  cardPage(accountId: AccountId, returnUrl: string, cause: Cause): Promise<string>
  /** Saves the card of a session that the customer returns from, if its callback has not arrived yet. */
  takeSession(accountId: AccountId, sessionId: string): Promise<void>
  /**
   * Turns it on, or changes it. A paused one stays paused unless the customer resumes it.
   * @throws ApiError: deposits_not_available, without a gateway for its invoices
   */
  set(
    accountId: AccountId,
    settings: TopupSettings & { readonly resume: boolean },
    cause: Cause,
  ): Promise<{ readonly topup: TopupState; readonly position: number | null }>
  /** Turns it off and removes the card. */
  remove(accountId: AccountId, cause: Cause): Promise<void>
}

export const createAutoTopups = (dependencies: AutoTopupDependencies): AutoTopups => {
  const { runner, gateways, logger } = dependencies
  return {
    read: (accountId, cause) => readTopup(runner, accountId, cause),
    cardPage: async (accountId, returnUrl, cause) => {
      // A process that can decide nothing could not save the card either.
      await readTopup(runner, accountId, cause)
      const live = await gateways.forRail(null, 'card')
      if (!gatewayOf(live) || !live?.gateway.cards)
        throw refuse('deposits_not_available', 'no live payment gateway of the service can save a card')
      try {
        return await live.gateway.cards.createPage({ accountId, returnUrl })
      } catch (error) {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, accountId }, 'a payment gateway did not make a page for a card')
        throw refuseWithRetryAfter('gateway_unavailable', 'the payment gateway did not answer', 5)
      }
    },
    takeSession: async (accountId, sessionId) => {
      const live = await gateways.forRail(null, 'card')
      try {
        const report = gatewayOf(live) && (await live?.gateway.fetch(`session:${sessionId}`))
        // A person may open the address of another account's session.
        if (live && report?.kind === 'setup' && report.accountId === accountId)
          await saveCard(dependencies, live, report)
      } catch (error) {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, accountId }, 'a payment gateway did not report a saved card')
      }
    },
    set: async (account, settings, cause) => {
      if (settings.method === 'crypto' && (await invoiceGateway(gateways)) === null)
        throw refuse('deposits_not_available', 'no live payment gateway of the service takes crypto')
      const { answer: topup, position } = await runner.run({
        name: 'set-auto-topup',
        streams: incidentRefs(account),
        decide: (states, { nowMs }) => decideSettings(states, account, settings, nowMs),
        ...cause,
        account,
      })
      return { topup, position }
    },
    remove: async (account, cause) => {
      const { answer } = await runner.run({
        name: 'remove-auto-topup',
        streams: { topup: topupRef(account) },
        decide: ({ topup }) => decideRemoval(topup, account),
        ...cause,
        account,
      })
      if (answer !== null) await removeCard(dependencies, answer)
    },
  }
}

type WorkDependencies = AutoTopupDependencies & {
  readonly deposits: Pick<Deposits, 'read' | 'settle' | 'invoice'>
  /** The public URL of the console. */
  readonly origin: () => string
  readonly clock: Clock
  readonly hooks: CrashHooks
}

/** Requests a top-up if the streams of the wallet require one. At most one is open at a time. */
export const requestTopup = async (
  { runner, gateways }: WorkDependencies,
  account: AccountId,
): Promise<'requested' | 'paused' | 'not_needed'> => {
  const cause = newCause()
  const current = await readTopup(runner, account, cause)
  const { method, settings } = current
  const depositId = nextDepositId(account, current)
  const gateway =
    settings?.method === 'crypto'
      ? await invoiceGateway(gateways)
      : method && gatewayOf(await gateways.byId(method.gatewayId))
  if (!gateway) return 'not_needed'
  const { answer } = await runner.run({
    name: 'request-topup',
    streams: { ...incidentRefs(account), ...depositRef(depositId) },
    decide: (states, { nowMs }) => decideTopup(states, account, depositId, gateway, nowMs),
    ...cause,
    account,
  })
  return answer
}

/** The provider forgets an idempotency key after a day. An older request is only looked up. */
const payableMs = 20 * 3_600_000
const dayMs = 24 * 3_600_000

/** The payment of a top-up at the provider. It is found, or made once by its idempotency key. */
const payOf = async (
  dependencies: WorkDependencies,
  cards: NonNullable<LiveGateway['gateway']['cards']>,
  account: AccountId,
  { topupId, depositId, amountCents, method, requestedAtMs }: OpenTopup & { readonly method: SavedMethod },
  cause: Cause,
) => {
  const { clock, hooks } = dependencies
  const payment = { topupId, depositId, amountCents, method }
  const found = await cards.find(payment)
  if (found !== null) return found
  if (clock() - requestedAtMs > payableMs) return { failed: 'no_answer' } as const
  // The customer may have removed the card after the request, or a payment was refunded. This is read last, because the
  // search may have taken long. The provider refuses a removed card, unless it was charged before.
  const current = await pauseTopup(dependencies, account, cause)
  if (current.pause !== null) return { failed: 'paused' } as const
  const isCurrent = current.method?.methodReference === method.methodReference
  if (!isCurrent) await cards.remove(method)
  const made = await cards.pay(payment)
  hooks.at('topup-charged')
  return !isCurrent && made.failed ? ({ failed: 'card_removed' } as const) : made
}

const openDeposit = (
  { runner }: WorkDependencies,
  account: AccountId,
  open: OpenTopup,
  gateway: TopupGateway,
  cause: Cause,
) =>
  runner.run({
    name: 'open-topup-deposit',
    streams: depositRef(open.depositId),
    decide: ({ deposit }, { nowMs }) => decideTopupDeposit(deposit, account, open, gateway, nowMs),
    ...cause,
    account,
  })

/** Charges the saved card. Null: the payment is credited as far as it is known. */
const charge = async (
  dependencies: WorkDependencies,
  account: AccountId,
  open: OpenTopup & { readonly method: SavedMethod },
  cause: Cause,
): Promise<TopupFailureReason | null> => {
  const { runner, gateways, deposits } = dependencies
  const { depositId, method } = open
  const live = await gateways.byId(method.gatewayId)
  const gateway = gatewayOf(live)
  if (!gateway || !live?.gateway.cards) throw new GatewayUnavailable(`gateway ${method.gatewayId} is gone`)
  await openDeposit(dependencies, account, open, gateway, cause)
  const result = await payOf(dependencies, live.gateway.cards, account, open, cause)
  if (result.failed !== undefined) return result.failed
  const startedMs = Date.parse(result.startedAt)
  await runner.run({
    name: 'note-topup-payment',
    streams: depositRef(depositId),
    decide: ({ deposit }, { nowMs }) =>
      decideInvoice(
        deposit,
        {
          invoiceId: result.paymentId,
          expiresAt: isoTime(startedMs + dayMs),
          watchUntil: isoTime(startedMs + 14 * dayMs),
        },
        nowMs,
      ),
    ...cause,
    account,
  })
  await deposits.settle(depositId, cause)
  return null
}

/** Creates the invoice of a top-up. After that it is settled and closed as any other. */
const sendInvoice = async (
  dependencies: WorkDependencies,
  account: AccountId,
  open: OpenTopup,
  cause: Cause,
): Promise<TopupFailureReason | null> => {
  const { gateways, deposits, origin } = dependencies
  const { depositId } = open
  let deposit = await deposits.read(depositId, cause)
  if (deposit === null) {
    const gateway = await invoiceGateway(gateways)
    if (!gateway) throw new GatewayUnavailable('no live payment gateway of the service takes crypto')
    await openDeposit(dependencies, account, open, gateway, cause)
    deposit = await deposits.read(depositId, cause)
  }
  if (deposit && !isClosed(deposit)) {
    await deposits.invoice(deposit, `${origin()}/console/deposits/${depositId}`, cause)
    deposit = await deposits.read(depositId, cause)
  }
  if (!deposit || !isClosed(deposit) || deposit.creditedMicros > 0) return null
  if (deposit.status === 'expired') return 'invoice_expired'
  return deposit.invoice ? 'payment_failed' : 'no_answer'
}

/**
 * Pays a requested top-up and credits its deposit, or sends its invoice until that is closed. It can be repeated after
 * each of its steps, by any process: the provider charges once for the id of the request, a deposit has one invoice, and
 * it is credited once for a payment.
 * @throws GatewayUnavailable: the outcome is unknown
 */
export const completeTopup = async (
  dependencies: WorkDependencies,
  account: AccountId,
): Promise<'none' | 'paid' | 'failed' | 'open'> => {
  const { runner, deposits, logger } = dependencies
  const cause = newCause()
  const { open } = await readTopup(runner, account, cause)
  if (open === null) return 'none'
  const { topupId, depositId, method } = open
  const streams = { topup: topupRef(account), ...depositRef(depositId) }
  const end = async (): Promise<'paid' | 'open'> => {
    const deposit = await deposits.read(depositId, cause)
    // An invoice that is paid in part is open until it expires.
    if (!deposit || deposit.creditedMicros === 0 || (method === null && !isClosed(deposit))) return 'open'
    await runner.run({
      name: 'finish-topup',
      streams,
      decide: ({ topup }) => decideTopupPaid(topup, account, topupId),
      ...cause,
      account,
    })
    return 'paid'
  }
  if ((await end()) === 'paid') return 'paid'
  const failed =
    method === null
      ? await sendInvoice(dependencies, account, open, cause)
      : await charge(dependencies, account, { ...open, method }, cause)
  if (failed !== null) return fail(dependencies, account, topupId, failed, streams, cause)
  const ended = await end()
  if (ended === 'paid')
    logger.info({ accountId: account, topupId, depositId }, 'an automatic top-up was paid')
  return ended
}

const fail = async (
  { runner, logger }: WorkDependencies,
  account: AccountId,
  topupId: string,
  reason: TopupFailureReason,
  streams: { readonly topup: ReturnType<typeof topupRef> } & ReturnType<typeof depositRef>,
  cause: Cause,
): Promise<'failed'> => {
  await runner.run({
    name: 'fail-topup',
    streams,
    decide: (states, { nowMs }) => decideTopupFailure(states, account, { topupId, reason }, nowMs),
    ...cause,
    account,
  })
  logger.warn({ accountId: account, topupId, reason }, 'an automatic top-up failed')
  return 'failed'
}

export const topupWorker = worker({
  name: 'auto-topups',
  about: 'Tops up wallets below their threshold by their saved cards, or by invoices',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

type TopupAccount = { account_id: AccountId }

/** Requests and pays automatic top-ups. While the provider does not answer, each is tried again in each round. */
export const startTopupReactor = (
  dependencies: WorkDependencies & {
    readonly scheduler: Scheduler
    readonly pool: pg.Pool
    readonly intervalMs?: number
  },
): RunningWorker => {
  const { scheduler, pool, logger, clock } = dependencies
  const complete = async (accountId: AccountId): Promise<void> => {
    try {
      await completeTopup(dependencies, accountId)
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, accountId }, 'a payment gateway did not answer for an automatic top-up')
    }
  }
  const open = worklist<TopupAccount>({
    name: 'open-topups',
    // An invoice that waits for its payment needs no work.
    read: `select t.account_id from read.auto_topups t
             left join read.deposits d on d.deposit_id = t.invoiced_deposit_id
            where t.open_topup_id is not null
              and (d.deposit_id is null or d.expires_at is null or d.status not in ('awaiting_payment', 'processing'))`,
    values: () => [],
    key: { account_id: 'text' },
    limit: 100,
    atOnce: 8,
    work: ({ account_id }) => complete(account_id),
  })
  const toPause = worklist<TopupAccount>({
    name: 'topups-to-pause',
    read: `select account_id from read.auto_topups where pause = 'due'`,
    values: () => [],
    key: { account_id: 'text' },
    limit: 100,
    work: async ({ account_id: accountId }) => {
      await pauseTopup(dependencies, accountId, newCause())
    },
  })
  const due = worklist<TopupAccount>({
    name: 'due-topups',
    read: `select t.account_id from read.auto_topups t
             join read.accounts a using (account_id) left join read.balances b using (account_id)
            where (t.has_card or t.by_invoice) and t.open_topup_id is null and t.pause is null and not a.blocked
              and coalesce(b.available_micros, 0) < t.threshold_micros
              and (t.retry_at is null or t.retry_at <= $1::timestamptz)
              and (t.limit_month <> $2::text
                or case when t.month = $2::text then t.month_cents else 0 end + t.least_cents <= t.monthly_max_cents)`,
    values: () => {
      const now = isoTime(clock())
      return [now, now.slice(0, 7)]
    },
    key: { account_id: 'text' },
    limit: 100,
    atOnce: 8,
    work: async ({ account_id: accountId }) => {
      if ((await requestTopup(dependencies, accountId)) === 'requested') await complete(accountId)
    },
  })
  return scheduler.start(topupWorker, worklistRound(pool, [toPause, open, due]), {
    everyMs: dependencies.intervalMs,
  })
}
