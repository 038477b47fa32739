import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { answer, type SandboxStore } from './sandbox-store.ts'

/** A fault of the simulated API: `PUT /_sandbox/telegram`. It affects the next `times` calls. */
const FaultShape = z.strictObject({
  kind: z.enum(['limit', 'blocked', 'no_chat', 'moved', 'error', 'lost', 'slow']),
  times: z.int().min(1).max(1_000).default(1),
  /** For `limit`: seconds. For `slow`: milliseconds. */
  after: z.int().min(0).max(60_000).default(1),
  /** For `moved`. */
  chat_id: z.int().optional(),
})
type Fault = z.infer<typeof FaultShape>

/** A message that a bot sent. */
export type Message = {
  readonly message_id: number
  readonly chat_id: number | string
  readonly text: string
  readonly bot: string
}
export const messageKind = 'telegram-message'

/** Parameters from JSON, a form or the query (https://core.telegram.org/bots/api#making-requests). */
const parametersOf = (request: FastifyRequest): Readonly<Record<string, unknown>> => {
  const body =
    typeof request.body === 'string' ? Object.fromEntries(new URLSearchParams(request.body)) : request.body
  return { ...(request.query as object), ...(body as object | null) }
}

const fail = (reply: FastifyReply, code: number, description: string, parameters?: object) =>
  answer(reply, code, { ok: false, error_code: code, description, ...(parameters && { parameters }) })

/**
 * The simulated Telegram Bot API: `getMe` and `sendMessage` for any bot, with the answers of the real API.
 * `GET /_sandbox/telegram/messages` lists the sent messages.
 */
export const telegramSandbox = (app: FastifyInstance, sandboxStore: SandboxStore): void => {
  let fault: Fault | null = null
  let messages = 0
  const nextFault = (): Fault | null => {
    const activeFault = fault
    if (fault) fault = fault.times > 1 ? { ...fault, times: fault.times - 1 } : null
    return activeFault
  }

  const store = async (bot: string, chatId: number | string, text: string): Promise<Message> => {
    messages += 1
    const message = { message_id: messages, chat_id: chatId, text, bot }
    await sandboxStore.records.change<Message>(messageKind, sandboxStore.hex(24), () => message)
    return message
  }

  const sendMessage = async (request: FastifyRequest, reply: FastifyReply, bot: string) => {
    const { chat_id: chat, text } = parametersOf(request)
    if (typeof text !== 'string' || text === '') return fail(reply, 400, 'Bad Request: message text is empty')
    if (text.length > 4096) return fail(reply, 400, 'Bad Request: message is too long')
    const chatId = typeof chat === 'string' && /^-?\d+$/.test(chat) ? Number(chat) : chat
    const isChannelName = typeof chatId === 'string' && /^@\w{5,32}$/.test(chatId)
    if (!isChannelName && !(typeof chatId === 'number' && Number.isSafeInteger(chatId)))
      return fail(reply, 400, 'Bad Request: chat_id is empty')
    const activeFault = nextFault()
    switch (activeFault?.kind) {
      case 'limit':
        return fail(reply, 429, `Too Many Requests: retry after ${activeFault.after}`, {
          retry_after: activeFault.after,
        })
      case 'blocked':
        return fail(reply, 403, 'Forbidden: bot was blocked by the user')
      case 'no_chat':
        return fail(reply, 400, 'Bad Request: chat not found')
      case 'moved':
        return fail(reply, 400, 'Bad Request: group chat was upgraded to a supergroup chat', {
          migrate_to_chat_id: activeFault.chat_id ?? -1001234567890,
        })
      case 'error':
        return fail(reply, 500, 'Internal Server Error')
      case 'slow':
        await sleep(activeFault.after)
        break
      default:
    }
    const message = await store(bot, chatId as number | string, text)
    if (activeFault?.kind === 'lost') {
      reply.raw.destroy()
      return reply
    }
    return answer(reply, 200, {
      ok: true,
      result: {
        message_id: message.message_id,
        from: { id: Number(bot), is_bot: true, first_name: 'SANDBOX', username: 'sandbox_bot' },
        chat: typeof chatId === 'number' ? { id: chatId, type: 'private' } : { id: 1, type: 'channel' },
        date: Math.floor(sandboxStore.clock() / 1000),
        text,
      },
    })
  }

  const method = async (request: FastifyRequest, reply: FastifyReply) => {
    const { bot = '', method: name } = request.params as { bot?: string; method?: string }
    const [id, secret] = bot.split(':')
    if (!/^\d+$/.test(id ?? '') || !secret) return fail(reply, 404, 'Not Found')
    if (secret === 'revoked') return fail(reply, 401, 'Unauthorized')
    if (name?.toLowerCase() === 'sendmessage') return sendMessage(request, reply, id ?? '')
    if (name?.toLowerCase() === 'getme')
      return answer(reply, 200, {
        ok: true,
        result: { id: Number(id), is_bot: true, first_name: 'SANDBOX', username: 'sandbox_bot' },
      })
    return fail(reply, 404, 'Not Found')
  }

  app.register(async (api) => {
    api.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, body),
    )
    api.route({ method: ['GET', 'POST'], url: '/bot:bot/:method', handler: method })
  })
  app.put('/_sandbox/telegram', async (request, reply) => {
    const input = FaultShape.safeParse(request.body)
    if (!input.success) return answer(reply, 400, { error: z.prettifyError(input.error) })
    fault = input.data
    return answer(reply, 200, fault)
  })
  app.get('/_sandbox/telegram/messages', async (_request, reply) =>
    answer(reply, 200, { messages: await sandboxStore.records.all<Message>(messageKind) }),
  )
}
