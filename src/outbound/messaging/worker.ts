import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { changeCustomer, findCustomer } from '../../market/customers/vault.ts'
import { readOrder } from '../../market/orders/read-order.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { startFairQueue } from '../../platform/work/fair-queue.ts'
import type { Poller } from '../../platform/work/poller.ts'
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

/** Messages that are on their way at once, and those of one reseller: its bot may be a server of its own that hangs. */
const atOnce = { total: 64, each: 4 }
/** About a day: 1 s, doubled each time, at most an hour apart. */
const maxAttempts = 32
const firstPauseMs = 1_000
const maxPauseMs = 3_600_000
/** A bot that asks for more is not heeded: no table could hold when it wants to be asked again. */
const maxAskedMs = 24 * 3_600_000

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
  /** Whatever the bot answers, it is asked ever more seldom, and not for ever. */
  const again = async (why: string, askedMs = 0): Promise<string> => {
    if (attempts >= maxAttempts) return finish(`given up: ${why}`)
    const waitMs = Math.max(pauseMs(attempts), Math.min(askedMs, maxAskedMs))
    await postponeMessage(pool, orderId, why, clock() + waitMs)
    return why
  }
  const text = orderText(order.details, outcome, bot.merchantName)
  const sent = await bot.messenger.send({ chatId, text })
  switch (sent.kind) {
    case 'sent':
      return finish('sent')
    case 'never':
      return finish(sent.why)
    case 'moved':
      await changeCustomer(pool, reseller, customerId, { chatId: sent.chatId })
      return again('the chat moved')
    case 'later':
      return again(sent.why, (sent.afterS ?? 0) * 1000)
    default: {
      const unknown: never = sent
      throw new Error(`unknown outcome ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * Tells customers through their reseller's bot how the orders ended that they paid for on a pay page. What is to be
 * told is decided once an order; sending is tried again until the provider took it, so a crash between its answer and
 * our note of it can tell the same twice: the Bot API takes no idempotency key. Nothing waits for a message, and no reseller's
 * messages for those of another.
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
  return startFairQueue<AccountId, DueMessage>({
    name: 'messages',
    intervalMs: deps.intervalMs ?? 1_000,
    atOnce,
    before: async () => {
      while ((await collectMessages(pool, clock())) > 0);
    },
    claim: (room) => claimMessages(pool, room, clock()),
    ownerOf: ({ account_id }) => account_id,
    work: one,
    logger,
  })
}
