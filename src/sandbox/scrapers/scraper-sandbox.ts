import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { ScraperRow } from '../../domain/scrapers/scraper.ts'
import { scrapers } from '../../domain/scrapers/scraper-table.ts'
import { answer } from '../sandbox-store.ts'
import {
  bodyOf,
  createJournal,
  type Parameters,
  type ParsedScrapeCall,
  pages,
  parseScrapeCall,
} from './scraper-request.ts'

/** Faults that a word in the target of a call triggers: `https://www.tiktok.com/@missing-7` is not found. */
export const triggers = {
  missing: 'answers 404 not_found, charges nothing',
  'fb-missing': 'answers 404 with success true and data.accountDoesNotExist',
  private: 'answers 200 with account_status private, charged',
  gated: 'answers 200 with account_status age-restricted, charged',
  agegate: 'answers 403 forbidden about the target',
  refused: 'answers 200 with success false; a number behind it is the errorStatus',
  flaky: 'answers 503 as often as the number behind it says, then as usual',
  slow: 'waits as many milliseconds as the number behind it says',
  reset: 'breaks the connection before an answer',
  cut: 'breaks the connection in the middle of an answer',
  html: 'answers 200 with a page',
  huge: 'answers 200 with a body that does not end before 64 MiB',
  throttle: 'answers 429; a number behind it is Retry-After in seconds, else 1',
  empty: 'answers 200 with empty lists',
  unsaid: 'answers 200 with none of the fields of the row',
  speechless: 'answers 200 without a transcript, charges nothing',
  withdrawn: 'answers 404 as for a path that there is not',
  status: 'answers with the status behind it',
  invalid: 'answers 400',
  nokey: 'answers 401',
  barred: 'answers 403 about the account of the caller',
  broke: 'answers 402',
  dear: 'answers as usual and charges 40 credits',
} as const

export type TriggerName = keyof typeof triggers
export type Trigger = { readonly name: TriggerName; readonly number: number | null; readonly target: string }

/** A word at the beginning of a text or of a part of a link. */
const form = /(?:^|[/@=#.])([a-z]{1,3}-)?([a-z]{1,12})-(?:(\d{1,6})-)?/g

const isTrigger = (name: string): name is TriggerName => Object.hasOwn(triggers, name)

/** The first trigger in the texts of a call. */
export const triggerOf = (values: readonly string[]): Trigger | null => {
  for (const target of values)
    for (const [, before = '', word = '', number] of target.matchAll(form)) {
      const name = `${before}${word}`
      if (isTrigger(name)) return { name, number: number === undefined ? null : Number(number), target }
    }
  return null
}

/** The path of the simulated provider of scrapers, below the address of the sandbox. */
export const scrapersPath = '/scrapecreators'

/** Initial credits of a key. */
const firstCredits = 1_000_000

const KeyShape = z.strictObject({
  key: z.string().min(1).max(200),
  credits: z.int().min(0).max(1_000_000_000),
})

/** An answer of the protocol. */
type SandboxAnswer = {
  readonly status: number
  readonly body: unknown
  readonly charged: number
  readonly headers?: Readonly<Record<string, string>>
}

const errorAnswer = (status: number, error: string, message: string): SandboxAnswer => ({
  status,
  charged: 0,
  body: { success: false, error, errorStatus: status, message: `STAND-IN: ${message}` },
})

type Call = {
  readonly row: ScraperRow
  readonly parsed: Exclude<ParsedScrapeCall, { wrong: string }>
  readonly parameters: Parameters
  readonly trigger: Trigger | null
}

/** A call costs the maximum of its row if it uses an expensive option. */
const creditsOf = ({ row, parameters, trigger }: Call): number => {
  if (trigger?.name === 'dear') return 40
  const isExpensive = parameters.download_media === 'true' || parameters.use_ai_as_fallback === 'true'
  return isExpensive ? row.source.maxCredits : row.source.credits
}

const usualAnswer = (call: Call, isEmpty = false): SandboxAnswer => ({
  status: 200,
  charged: creditsOf(call),
  body: bodyOf(call.row, call.parsed.call, call.parsed.page, isEmpty || call.parsed.page > pages),
})

const withoutTranscript = (call: Call): SandboxAnswer => {
  const sandboxAnswer = usualAnswer(call)
  const name = call.row.nothingWhenNull
  return name === null
    ? sandboxAnswer
    : { ...sandboxAnswer, charged: 0, body: { ...(sandboxAnswer.body as object), [name]: null } }
}

/** The answer for the trigger of a call; null for a usual answer. `brokenReply` handles delays and broken connections. */
const triggeredAnswer = (call: Call, previousCalls: number): SandboxAnswer | null => {
  const { row, trigger } = call
  const { credits } = row.source
  switch (trigger?.name) {
    case 'missing':
      return errorAnswer(404, 'not_found', 'nothing is there')
    case 'fb-missing':
      return { status: 404, charged: 0, body: { success: true, data: { accountDoesNotExist: true } } }
    case 'private':
    case 'gated':
      return {
        status: 200,
        charged: credits,
        body: {
          success: true,
          account_status: trigger.name === 'private' ? 'private' : 'age-restricted',
          ...(call.parameters.include_gated_profile === 'true' && { name: 'stand-in gated page' }),
        },
      }
    case 'agegate':
      return errorAnswer(403, 'forbidden', 'This video is age restricted')
    case 'refused':
      return {
        status: 200,
        charged: 0,
        body: {
          success: false,
          error: trigger.number === 404 ? 'not_found' : 'refused',
          ...(trigger.number !== null && { errorStatus: trigger.number }),
          message: 'STAND-IN: refused',
        },
      }
    case 'flaky':
      return previousCalls < (trigger.number ?? 1) ? errorAnswer(503, 'unavailable', 'not just now') : null
    case 'throttle':
      return {
        ...errorAnswer(429, 'too_many_requests', 'slower'),
        headers: { 'retry-after': String(trigger.number ?? 1) },
      }
    case 'empty':
      return usualAnswer(call, true)
    case 'unsaid':
      return { status: 200, charged: credits, body: { success: true, something_else: 'stand-in' } }
    case 'speechless':
      return withoutTranscript(call)
    case 'withdrawn':
      return { status: 404, charged: 0, body: 'Not Found' }
    case 'status':
      return errorAnswer(trigger.number ?? 500, 'failed', 'as requested')
    case 'invalid':
      return errorAnswer(400, 'bad_request', 'a parameter is not taken')
    case 'nokey':
      return errorAnswer(401, 'unauthorized', 'the key is not known')
    case 'barred':
      return errorAnswer(403, 'forbidden', 'this API key may not call')
    case 'broke':
      return errorAnswer(402, 'payment_required', "Looks like you're out of credits")
    default:
      return null
  }
}

/** Answers 404 for a page after the last page of a search. */
const orNotFound = (call: Call, sandboxAnswer: SandboxAnswer): SandboxAnswer =>
  call.row.isSearch && call.parsed.page > pages ? errorAnswer(404, 'not_found', 'no hit') : sandboxAnswer

const parametersOf = (request: FastifyRequest): Parameters => {
  const input = { ...(request.query as object), ...(request.body as object | null) }
  return Object.fromEntries(Object.entries(input).map(([name, value]) => [name, String(value)]))
}

/**
 * The simulated provider of scrapers: every row of the table at its path, with keys, credits, pages and the
 * provider's fields around each answer. All data is invented and says so. `GET /_sandbox/scrapers/journal` lists the
 * calls. Words in a target trigger faults (`GET /_sandbox/scrapers/triggers`).
 */
export const scraperSandbox = (app: FastifyInstance, clock: () => number): void => {
  const journal = createJournal()
  const credits = new Map<string, number>()
  const callCounts = new Map<string, number>()

  const creditsLeft = (key: string): number => credits.get(key) ?? firstCredits

  const previousCalls = (trigger: Trigger | null): number => {
    if (trigger === null) return 0
    const before = callCounts.get(trigger.target) ?? 0
    callCounts.set(trigger.target, before + 1)
    return before
  }

  const sandboxAnswer = (call: Call): SandboxAnswer => {
    const triggerAnswer = triggeredAnswer(call, previousCalls(call.trigger))
    if (triggerAnswer) return triggerAnswer
    return orNotFound(call, usualAnswer(call))
  }

  /** Adds the provider's fields to an object. */
  const withCredits = (key: string, { body, charged }: SandboxAnswer): unknown => {
    if (Array.isArray(body) || typeof body !== 'object') return body
    return { success: true, credits_remaining: creditsLeft(key), credits_charged: charged, ...body }
  }

  const breakOff = (reply: FastifyReply): FastifyReply => {
    reply.hijack()
    reply.raw.socket?.destroy()
    return reply
  }

  /** Sends the faulty answers that are not JSON of the protocol; null for all other calls. */
  const brokenReply = async ({ trigger }: Call, reply: FastifyReply): Promise<FastifyReply | null> => {
    switch (trigger?.name) {
      case 'slow':
        await sleep(trigger.number ?? 0)
        return null
      case 'reset':
        return breakOff(reply)
      case 'cut':
        reply.hijack()
        reply.raw.writeHead(200, { 'content-type': 'application/json' })
        reply.raw.write('{"success": true, "stand_in": "', () => reply.raw.socket?.destroy())
        return reply
      case 'html':
        return reply.code(200).header('content-type', 'text/html').send('<!doctype html><p>STAND-IN</p>')
      case 'huge':
        return endless(reply)
      default:
        return null
    }
  }

  const handleCall = async (request: FastifyRequest, reply: FastifyReply, row: ScraperRow) => {
    const key = String(request.headers['x-api-key'] ?? '')
    const parameters = parametersOf(request)
    const note = (status: number | null, charged: number): void =>
      journal.add({
        at: clock(),
        method: request.method,
        path: row.source.path,
        parameters,
        key: key.slice(0, 8),
        status,
        creditsCharged: charged,
      })
    const sendAnswer = (outgoing: SandboxAnswer): FastifyReply => {
      if (outgoing.charged > 0) credits.set(key, creditsLeft(key) - outgoing.charged)
      note(outgoing.status, outgoing.charged)
      void reply.headers(outgoing.headers ?? {})
      if (typeof outgoing.body === 'string')
        return reply.code(outgoing.status).type('text/plain').send(outgoing.body)
      return answer(reply, outgoing.status, withCredits(key, outgoing))
    }
    if (key === '' || key.startsWith('revoked'))
      return sendAnswer(errorAnswer(401, 'unauthorized', 'the key is not known'))
    if (creditsLeft(key) < row.source.credits)
      return sendAnswer(errorAnswer(402, 'payment_required', "Looks like you're out of credits"))
    const parsed = parseScrapeCall(row, parameters)
    if ('wrong' in parsed) return sendAnswer(errorAnswer(400, 'bad_request', parsed.wrong))
    const call: Call = { row, parsed, parameters, trigger: triggerOf(parsed.texts) }
    journal.begin()
    try {
      const rawReply = await brokenReply(call, reply)
      if (rawReply === null) return sendAnswer(sandboxAnswer(call))
      note(null, 0)
      return rawReply
    } finally {
      journal.end()
    }
  }

  app.register(
    async (api) => {
      for (const row of scrapers)
        api.route({
          method: row.source.takesPost ? ['GET', 'POST'] : ['GET'],
          url: row.source.path,
          handler: (request, reply) => handleCall(request, reply, row),
        })
      api.get('/v1/account/credit-balance', async (request, reply) => {
        const key = String(request.headers['x-api-key'] ?? '')
        if (key === '' || key.startsWith('revoked')) return answer(reply, 401, { success: false })
        return answer(reply, 200, { success: true, creditCount: creditsLeft(key) })
      })
    },
    { prefix: scrapersPath },
  )
  app.get('/_sandbox/scrapers/journal', async (_request, reply) => answer(reply, 200, journal.read()))
  app.delete('/_sandbox/scrapers/journal', async (_request, reply) => {
    journal.clear()
    return answer(reply, 200, journal.read())
  })
  app.get('/_sandbox/scrapers/triggers', async (_request, reply) => answer(reply, 200, triggers))
  app.put('/_sandbox/scrapers/keys', async (request, reply) => {
    const input = KeyShape.safeParse(request.body)
    if (!input.success) return answer(reply, 400, { error: z.prettifyError(input.error) })
    credits.set(input.data.key, input.data.credits)
    return answer(reply, 200, input.data)
  })
}

const chunk = 'x'.repeat(65_536)
const hugeChunks = 1_024

/** Sends until the client closes the connection, 64 MiB at most. */
const endless = (reply: FastifyReply): FastifyReply => {
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, { 'content-type': 'application/json' })
  raw.write('{"success": true, "stand_in": "')
  let sent = 0
  const writeChunks = (): void => {
    while (!raw.destroyed && sent < hugeChunks) {
      sent += 1
      if (!raw.write(chunk)) {
        raw.once('drain', writeChunks)
        return
      }
    }
    if (!raw.destroyed) raw.end('"}')
  }
  writeChunks()
  return reply
}
