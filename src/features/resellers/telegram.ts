import { z } from 'zod'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'

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
export const telegramUrl = 'https://api.telegram.org'

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
