import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import { changeCustomer, findCustomer } from '../customers/vault.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { AccountId } from '../ids.ts'
import { readOrder } from '../orders/read-order.ts'
import { type Poller, startPoller } from '../poller.ts'
import type { Messenger } from './port.ts'
import { claimMessages, collectMessages, type DueMessage, finishMessage, postponeMessage } from './queue.ts'
import { orderText } from './texts.ts'

/** A reseller's bot as it is set up now, and how its messages are signed. */
export type ResellerBot = { readonly messenger: Messenger; readonly merchantName: string | null }

type Deps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly botOf: (reseller: AccountId) => Promise<ResellerBot | null>
  readonly clock: Clock
  readonly logger: Logger
}

/** Messages that are on their way at once. */
const atOnce = 16
/** About a day: 1 s, doubled each time, at most an hour apart. */
const maxAttempts = 32
const firstPauseMs = 1_000
const maxPauseMs = 3_600_000

const pauseMs = (attempts: number): number => Math.min(maxPauseMs, firstPauseMs * 2 ** (attempts - 1))

const deliver = async (deps: Deps, message: DueMessage): Promise<string> => {
  const { pool, log, botOf, clock } = deps
  const { order_id: orderId, account_id: reseller, customer_id: customerId, outcome, attempts } = message
  const finish = async (result: string): Promise<string> => {
    await finishMessage(pool, orderId, result, clock())
    return result
  }
  const chatId = (await findCustomer(pool, reseller, customerId))?.chatId ?? null
  if (chatId === null) return finish('no chat')
  const bot = await botOf(reseller)
  if (bot === null) return finish('no bot')
  const order = await readOrder(log, orderId)
  if (!order) throw new Error(`order ${orderId} is gone`)
  const text = orderText(order.details, outcome, bot.merchantName)
  const sent = await bot.messenger.send({ chatId, text })
  switch (sent.kind) {
    case 'sent':
      return finish('sent')
    case 'never':
      return finish(sent.why)
    case 'moved':
      await changeCustomer(pool, reseller, customerId, { chatId: sent.chatId })
      await postponeMessage(pool, orderId, 'the chat moved', clock())
      return 'the chat moved'
    case 'later': {
      if (attempts >= maxAttempts) return finish(`given up: ${sent.why}`)
      const waitMs = Math.max(pauseMs(attempts), (sent.afterS ?? 0) * 1000)
      await postponeMessage(pool, orderId, sent.why, clock() + waitMs)
      return sent.why
    }
    default: {
      const unknown: never = sent
      throw new Error(`unknown outcome ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * Tells customers through their reseller's bot how the orders ended that they paid for on a pay page. What is to be
 * told is decided once an order; sending is tried again until the provider took it, so a crash between its answer and
 * our note of it can tell the same twice: the Bot API takes no idempotency key. Nothing waits for a message.
 */
export const startMessageWorker = (deps: Deps & { readonly intervalMs?: number }): Poller => {
  const { pool, clock, logger } = deps
  const one = async (message: DueMessage): Promise<void> => {
    const fields = { orderId: message.order_id, attempts: message.attempts }
    try {
      logger.info(
        { ...fields, outcome: await deliver(deps, message) },
        'a customer was to be told of an order',
      )
    } catch (error) {
      logger.error({ err: error, ...fields }, 'a message failed and is tried again')
    }
  }
  const work = async (): Promise<void> => {
    while ((await collectMessages(pool, clock())) > 0);
    for (;;) {
      const due = await claimMessages(pool, atOnce, clock())
      await Promise.all(due.map(one))
      if (due.length < atOnce) return
    }
  }
  return startPoller({ name: 'messages', intervalMs: deps.intervalMs ?? 1_000, work, logger })
}
