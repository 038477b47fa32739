import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { attempt, buildProviderRequest } from '../../../src/features/scrapers/call-provider.ts'
import { sandboxOutgoing } from '../../../src/platform/outgoing/send.ts'
import { atEnd } from '../../support/cleanup.ts'
import { openScraping, row } from './provider-world.ts'

const profile = row('tiktok/profile')
const found = JSON.stringify({ success: true, credits_charged: 1, user: { id: '1' }, stats: {} })
const response = (status: string, body: string, headers = ''): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`

/** A provider that answers each request with these bytes. */
const provider = async (t: TestContext, bytes: string): Promise<string> => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('data', () => socket.write(bytes))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as { readonly port: number }).port}`
}

const outcomeOf = async (t: TestContext, bytes: string) => {
  const { call } = openScraping(t, [{ name: 'first', baseUrl: await provider(t, bytes) }])
  return (await call(profile, { handle: 'nasa' })).outcome
}

const nested = (levels: number, [open, close]: readonly [string, string]): string =>
  `{"success":true,"user":${open.repeat(levels)}1${close.repeat(levels)}}`

for (const form of [
  ['[', ']'],
  ['{"a":', '}'],
] as const)
  test(`a response nested 20,000 levels deep with ${form[0]} is not a result, and one with 100 levels is`, async (t) => {
    const deep = await outcomeOf(t, response('200 OK', nested(20_000, form)))
    assert.deepEqual(deep, { kind: 'failed', code: 'provider_failed', retryAfterSeconds: 5 })
    assert.equal((await outcomeOf(t, response('200 OK', nested(100, form)))).kind, 'found')
  })

test('brackets in texts of a response are not nesting', async (t) => {
  const body = JSON.stringify({ success: true, user: `\\"${'['.repeat(20_000)}"` })
  assert.equal((await outcomeOf(t, response('200 OK', body))).kind, 'found')
})

for (const [what, header, expected] of [
  ['in seconds', '120', (seconds: number | null) => seconds === 120],
  ['of more than six digits', '10000000', (seconds: number | null) => seconds === 10_000_000],
  ['of more than a year', '9'.repeat(30), (seconds: number | null) => seconds === 31_536_000],
  [
    'as a date',
    new Date(Date.now() + 3_600_000).toUTCString(),
    (seconds: number | null) => seconds !== null && seconds > 3_500 && seconds <= 3_601,
  ],
  ['that is none', 'soon', (seconds: number | null) => seconds === 5],
  ['in the past', 'Sun, 06 Nov 1994 08:49:37 GMT', (seconds: number | null) => seconds === 1],
] as const)
  test(`a provider's Retry-After ${what} is passed on`, async (t) => {
    const outcome = await outcomeOf(t, response('500 Oops', '{}', `retry-after: ${header}\r\n`))
    assert.ok(outcome.kind === 'failed' && expected(outcome.retryAfterSeconds), JSON.stringify(outcome))
  })

for (const interim of ['100 Continue', '102 Processing', '103 Early Hints', '199 Whatever'])
  test(`an unsolicited ${interim} does not change a response`, async (t) => {
    const bytes = `HTTP/1.1 ${interim}\r\nlink: </a>\r\n\r\nHTTP/1.1 ${interim}\r\n\r\n${response('200 OK', found)}`
    assert.equal((await outcomeOf(t, bytes)).kind, 'found')
  })

test('a response header of 100 kB ends an attempt at once', async (t) => {
  const baseUrl = await provider(t, response('200 OK', found, `x-long: ${'a'.repeat(100_000)}\r\n`))
  const outgoing = sandboxOutgoing(baseUrl)
  atEnd(t, outgoing.close)
  const request = buildProviderRequest(profile, { handle: 'nasa' })
  const signal = AbortSignal.timeout(5_000)
  const made = await attempt(
    { row: profile, input: { handle: 'nasa' }, request },
    { send: outgoing.send, baseUrl, apiKey: 'key', signal, clock: Date.now },
  )
  assert.equal(signal.aborted, false)
  assert.equal(made.outcome.kind, 'failed')
})
