import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { changeCustomer, findCustomer } from '../../market/customers/vault.ts'
import { readOrder } from '../../market/orders/read-order.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { RunningQueue } from '../../platform/work/queue/engine.ts'
import { doubling, type Outcome } from '../../platform/work/queue/standard.ts'
import type { Workers } from '../../platform/work/queue/workers.ts'
import type { Messenger } from './port.ts'
import { collectMessages, type Message, messageQueue } from './queue.ts'
import { orderText } from './texts.ts'

/** A reseller's bot as it is set up now, and how its messages are signed. */
export type ResellerBot = { readonly messenger: Messenger; readonly merchantName: string | null }

type Deps = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly botOf: (reseller: AccountId) => Promise<ResellerBot | null>
  readonly clock: Clock
}

/** A bot that asks for more is not heeded: no table could hold when it wants to be asked again. */
const maxAskedMs = 24 * 3_600_000

const deliver = async (
  { pool, log, botOf }: Deps,
  { order_id: orderId, account_id: reseller, customer_id: customerId, outcome }: Message,
): Promise<Outcome> => {
  const done = (result: string): Outcome => ({ kind: 'done', result })
  const chatId = (await findCustomer(pool, reseller, customerId))?.chatId ?? null
  if (chatId === null) return done('no chat')
  const bot = await botOf(reseller)
  if (bot === null) return done('no bot')
  const order = await readOrder(log, orderId)
  if (!order) throw new Error(`order ${orderId} is gone`)
  const text = orderText(order.details, outcome, bot.merchantName)
  const sent = await bot.messenger.send({ chatId, text })
  switch (sent.kind) {
    case 'sent':
      return done('sent')
    case 'never':
      return done(sent.why)
    case 'moved':
      await changeCustomer(pool, reseller, customerId, { chatId: sent.chatId })
      return { kind: 'again', why: 'the chat moved' }
    case 'later':
      return { kind: 'again', why: sent.why, afterMs: Math.min((sent.afterS ?? 0) * 1000, maxAskedMs) }
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
 * messages for those of another: its bot may be a server of its own that hangs. Given up after 32 attempts, about a day.
 */
export const startMessageWorker = (deps: Deps & { readonly pollMs?: number }): RunningQueue => {
  const { workers, pool, clock, pollMs = 1_000 } = deps
  return workers.start<Message>({
    queue: messageQueue,
    atOnce: { total: 64, each: 4 },
    longestMs: 30_000,
    schedule: doubling(1_000, 3_600_000),
    maxAttempts: 32,
    pollMs,
    fill: async () => {
      while ((await collectMessages(pool, clock())) > 0);
    },
    work: (message) => deliver(deps, message),
  })
}
