import type pg from 'pg'
import { z } from 'zod'
import { type Order, orderRef, waitsFor } from '../../domain/orders/fold.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { Clock } from '../../kernel/clock.ts'
import { trimEnd } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { readStreamState } from '../../platform/commands/command.ts'
import type { LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { publicOutgoing, type Send, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { exponentialBackoff, type Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import { type ChatSigner, changeCustomer, findChat } from '../accounts/index.ts'
import type { ResellerCredentials } from './gateway-credentials.ts'
import { collectMessages, type Message, messageQueue } from './message-queue.ts'

export type Bots = {
  /** The bot of the reseller; null without one. */
  of(reseller: AccountId): Promise<ResellerBot | null>
  close(): Promise<void>
}

/**
 * The bots of resellers: the reseller's terms name the bot, the vault has its token. A bot with the sandbox's address
 * is the sandbox bot. All others are called over https on a public address.
 */
export const createBots = (dependencies: {
  readonly termsOf: LogStates<Terms>
  readonly credentials: Pick<ResellerCredentials, 'bot'>
  /** Address of the sandbox; null if none runs. */
  readonly sandboxUrl: string | null
}): Bots => {
  const { termsOf, credentials, sandboxUrl } = dependencies
  const outgoing = publicOutgoing()
  const local = sandboxUrl === null ? null : sandboxOutgoing(sandboxUrl)
  const sendTo = (apiUrl: string): Send =>
    local !== null && sandboxUrl !== null && new URL(apiUrl).origin === new URL(sandboxUrl).origin
      ? local.send
      : outgoing.send
  return {
    of: async (reseller) => {
      const { bot, shop } = (await termsOf(reseller)).state
      const botCredentials = bot && (await credentials.bot(bot.reference))
      if (!botCredentials) return null
      const apiUrl = trimEnd(botCredentials.apiUrl ?? telegramUrl, '/')
      const messenger = createTelegram({ token: botCredentials.token, apiUrl, send: sendTo(apiUrl) })
      return { messenger, merchantName: shop.merchantName, chatId: botCredentials.chatId ?? null }
    },
    close: async () => {
      await outgoing.close()
      await local?.close()
    },
  }
}

/** The message to a customer about an order paid on a pay page. Plain text, below Telegram's 4,096 characters. */
export const orderText = (
  order: Pick<OrderDetails, 'orderId' | 'productId' | 'quantity' | 'unit'>,
  outcome: 'placed' | 'failed',
  merchantName: string | null,
): string => {
  const purchaseText = `${order.quantity} ${order.unit} of ${order.productId}`
  const headline =
    outcome === 'placed'
      ? `Thank you: your payment arrived and your order is ready, ${purchaseText}.`
      : `Your payment arrived, but the order could not be placed: ${purchaseText}. The money stays in your credit.`
  return [headline, `Order ${order.orderId}`, ...(merchantName === null ? [] : [merchantName])].join('\n')
}

/** The message to a reseller about an order that its customer paid while the wallet was short. */
export const walletShortText = ({ details, awaiting }: Order): string =>
  [
    `Your customer paid for ${details.quantity} ${details.unit} of ${details.productId}, but your wallet lacks ${dollarText(awaiting?.missingCents ?? 0)} for your cost.`,
    `Top up your wallet: the order is then placed by itself. Otherwise it fails at ${awaiting?.heldUntil}.`,
    `Order ${details.orderId}`,
  ].join('\n')

/** A reseller's current bot, the signature of its messages, and the reseller's own chat. */
export type ResellerBot = {
  readonly messenger: Messenger
  readonly merchantName: string | null
  readonly chatId: string | null
}

type Dependencies = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly chats: ChatSigner
  readonly log: EventLog
  readonly botOf: (reseller: AccountId) => Promise<ResellerBot | null>
  readonly clock: Clock
}

/**
 * A longer pause from a bot is shortened to this, because the table cannot store an arbitrarily late time.
 * Milliseconds.
 */
const maxRetryAfterMs = 24 * 3_600_000

const deliver = async (
  { pool, chats, log, botOf }: Dependencies,
  { order_id: orderId, account_id: reseller, customer_id: customerId, notice }: Message,
): Promise<Outcome> => {
  const doneWith = (result: string): Outcome => ({ kind: 'done', result })
  const isToReseller = notice === 'wallet_short'
  const chat = isToReseller ? null : await findChat(pool, chats, reseller, customerId)
  if (chat === 'forged') return doneWith('the chat was not written by the service')
  if (chat?.chatId === null) return doneWith('no chat')
  const bot = await botOf(reseller)
  if (bot === null) return doneWith('no bot')
  const chatId = chat?.chatId ?? bot.chatId
  if (chatId === null) return doneWith('no chat')
  const order = (await readStreamState(log, orderRef(orderId))).state
  if (!order) throw new Error(`order ${orderId} is gone`)
  const { accountId, customerId: holder } = order.details
  if (accountId !== reseller || holder !== customerId)
    return doneWith('the message was not written by the service')
  if (isToReseller && waitsFor(order) !== 'wallet') return doneWith('the order no longer waits')
  const text = isToReseller ? walletShortText(order) : orderText(order.details, notice, bot.merchantName)
  const sent = await bot.messenger.send({ chatId, text })
  switch (sent.kind) {
    case 'sent':
      return doneWith('sent')
    case 'never':
      return doneWith(sent.why)
    case 'moved':
      // The chat of the reseller is in the credentials of its bot, which the operator sets.
      if (isToReseller) return doneWith('the chat moved')
      await changeCustomer(pool, chats, reseller, customerId, { chatId: sent.chatId })
      return { kind: 'again', why: 'the chat moved' }
    case 'later':
      return { kind: 'again', why: sent.why, afterMs: Math.min((sent.afterS ?? 0) * 1000, maxRetryAfterMs) }
    default: {
      const unknown: never = sent
      throw new Error(`unknown outcome ${JSON.stringify(unknown)}`)
    }
  }
}

export const messageWorker = worker({
  name: messageQueue.name,
  about: 'Sends messages about paid orders through bots, to customers and resellers',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Sends customers, through their reseller's bot, the outcomes of orders that they paid on a pay page, and tells the
 * reseller which of them wait for its wallet. A message is decided once for each order and notice, and sending is repeated until the provider accepts it. After a crash between its answer
 * and our note, a message may be sent twice: the Bot API has no idempotency key. Nothing waits for messages. One
 * reseller's messages do not wait for another's, because a bot may be a slow server of the reseller. A message is given
 * up after 32 attempts, about a day.
 */
export const startMessageWorker = (
  dependencies: Dependencies & { readonly pollMs?: number },
): RunningQueue => {
  const { workers, pool, clock } = dependencies
  return workers.start<Message>({
    worker: messageWorker,
    queue: messageQueue,
    atOnce: { total: 64, each: 4 },
    longestMs: 30_000,
    schedule: exponentialBackoff(1_000, 3_600_000),
    maxAttempts: 32,
    pollMs: dependencies.pollMs,
    fill: async () => {
      while ((await collectMessages(pool, clock())) > 0);
    },
    work: (message) => deliver(dependencies, message),
  })
}

/** The result of sending a message. `later` and `never` give a reason without names, chats or secrets. */
export type SendOutcome =
  | { readonly kind: 'sent' }
  /** Not accepted now: send it again after at least `afterS` seconds; null if the provider gave no time. */
  | { readonly kind: 'later'; readonly afterS: number | null; readonly why: string }
  /** The chat has a new id. */
  | { readonly kind: 'moved'; readonly chatId: string }
  /** Never accepted: the chat does not exist, or blocks the bot. */
  | { readonly kind: 'never'; readonly why: string }

/** A reseller's messaging bot. It never rejects. */
export type Messenger = {
  send(message: { readonly chatId: string; readonly text: string }): Promise<SendOutcome>
}

/** Address of the Bot API (https://core.telegram.org/bots/api#making-requests). */
const telegramUrl = 'https://api.telegram.org'

const Answer = z.object({
  ok: z.boolean(),
  error_code: z.number().optional(),
  description: z.string().optional(),
  parameters: z
    .object({
      retry_after: z.number().optional(),
      // Checked because the bot's server may be the reseller's own, and the value is stored in the vault.
      migrate_to_chat_id: z.union([z.int(), z.string().regex(/^-?\d{1,15}$/)]).optional(),
    })
    .optional(),
})

/** The meaning of an answer. Server errors and rate limits are temporary, refusals are permanent. */
const outcomeOf = (status: number, text: string): SendOutcome => {
  const parsed = Answer.safeParse(parse(text))
  if (!parsed.success)
    return { kind: 'later', afterS: null, why: `status ${status}, no answer of the Bot API` }
  const { ok, error_code: code = status, parameters } = parsed.data
  if (ok) return { kind: 'sent' }
  if (parameters?.migrate_to_chat_id !== undefined)
    return { kind: 'moved', chatId: String(parameters.migrate_to_chat_id) }
  const why = `error ${code}`
  // 401 and 404 mean that the token is no longer valid. The reseller may set another one.
  if (code === 429 || code >= 500 || code === 401 || code === 404)
    return { kind: 'later', afterS: parameters?.retry_after ?? null, why }
  return { kind: 'never', why }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** A Telegram bot: `sendMessage` of the Bot API. The URL contains the token, so URLs are never reported. */
export const createTelegram = (bot: {
  readonly token: string
  readonly apiUrl: string
  readonly send: Send
}): Messenger => ({
  send: async ({ chatId, text }) => {
    const numeric = /^-?\d{1,15}$/.test(chatId)
    try {
      const response = await bot.send(`${bot.apiUrl}/bot${bot.token}/sendMessage`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ chat_id: numeric ? Number(chatId) : chatId, text }),
      })
      return outcomeOf(response.status, await response.text())
    } catch (error) {
      return { kind: 'later', afterS: null, why: faultKind(error) }
    }
  },
})
