import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTelegram } from '../../../src/features/resellers/customer-messages.ts'
import { type Send, sandboxOutgoing } from '../../../src/platform/outgoing/send.ts'
import { startSandbox } from '../../../src/sandbox/sandbox-server.ts'
import { memoryRecords } from '../../support/memory-records.ts'

const token = '123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11'

/** Answers as the documentation of the Bot API prints them. */
const answering =
  (status: number, body: string): Send =>
  async () => ({ status, headers: new Headers(), text: async () => body })
const send = (answer: Send) =>
  createTelegram({ token, apiUrl: 'https://api.telegram.org', send: answer }).send({
    chatId: '1',
    text: 'hi',
  })

describe('the Telegram adapter', () => {
  test('calls sendMessage as the Bot API documents it', async () => {
    const requests: { url: string; body: unknown }[] = []
    const telegram = createTelegram({
      token,
      apiUrl: 'https://api.telegram.org',
      send: async (url, init) => {
        requests.push({ url, body: JSON.parse(init?.body ?? '') })
        return { status: 200, headers: new Headers(), text: async () => '{"ok":true,"result":{}}' }
      },
    })
    for (const chatId of ['-1001234567890', '@farebox_news'])
      assert.deepEqual(await telegram.send({ chatId, text: 'Grüße' }), { kind: 'sent' })
    const url = `https://api.telegram.org/bot${token}/sendMessage`
    assert.deepEqual(requests, [
      { url, body: { chat_id: -1001234567890, text: 'Grüße' } },
      { url, body: { chat_id: '@farebox_news', text: 'Grüße' } },
    ])
  })

  test('classifies the published errors of Telegram as temporary or permanent', async () => {
    const cases: readonly [number, object, object][] = [
      [
        429,
        {
          ok: false,
          error_code: 429,
          description: 'Too Many Requests: retry after 35',
          parameters: { retry_after: 35 },
        },
        { kind: 'later', afterS: 35, why: 'error 429' },
      ],
      [
        403,
        { ok: false, error_code: 403, description: 'Forbidden: bot was blocked by the user' },
        { kind: 'never', why: 'error 403' },
      ],
      [
        400,
        { ok: false, error_code: 400, description: 'Bad Request: chat not found' },
        { kind: 'never', why: 'error 400' },
      ],
      [
        400,
        {
          ok: false,
          error_code: 400,
          description: 'Bad Request: group chat was upgraded to a supergroup chat',
          parameters: { migrate_to_chat_id: -1001234567890 },
        },
        { kind: 'moved', chatId: '-1001234567890' },
      ],
      [
        401,
        { ok: false, error_code: 401, description: 'Unauthorized' },
        { kind: 'later', afterS: null, why: 'error 401' },
      ],
      [
        502,
        { ok: false, error_code: 502, description: 'Bad Gateway' },
        { kind: 'later', afterS: null, why: 'error 502' },
      ],
    ]
    for (const [status, body, expected] of cases)
      assert.deepEqual(await send(answering(status, JSON.stringify(body))), expected)
    // A bot's server may be a reseller's own: the vault keeps no chat that no chat can be.
    for (const chat of ['x'.repeat(1_000_000), '12 34', 1e300, 0.5]) {
      const moved = { ok: false, error_code: 400, parameters: { migrate_to_chat_id: chat } }
      assert.equal(
        (await send(answering(400, JSON.stringify(moved)))).kind,
        'later',
        String(chat).slice(0, 9),
      )
    }
    const page = await send(answering(502, '<html>Bad Gateway</html>'))
    assert.equal(page.kind, 'later')
  })

  test('never reveals the token in an error', async () => {
    const broken = await send(async (url) => {
      throw Object.assign(new TypeError(`fetch of ${url} failed`), { cause: { code: 'ECONNRESET' } })
    })
    assert.deepEqual(broken, { kind: 'later', afterS: null, why: 'ECONNRESET' })
    const timeout = await send(async (url) => {
      throw new DOMException(`the request to ${url} timed out`, 'TimeoutError')
    })
    assert.deepEqual(timeout, { kind: 'later', afterS: null, why: 'TimeoutError' })
  })

  test('works with the stand-in over the wire, with and without faults', async (t) => {
    const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
    const outgoing = sandboxOutgoing(sandbox.baseUrl)
    t.after(async () => {
      await outgoing.close()
      await sandbox.close()
    })
    const telegram = (bot = token) =>
      createTelegram({ token: bot, apiUrl: sandbox.baseUrl, send: outgoing.send })
    const fault = (body: object) =>
      fetch(`${sandbox.baseUrl}/_sandbox/telegram`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const message = { chatId: '77', text: 'your order is ready' }
    assert.deepEqual(await telegram().send(message), { kind: 'sent' })
    await fault({ kind: 'limit', after: 7 })
    assert.deepEqual(await telegram().send(message), { kind: 'later', afterS: 7, why: 'error 429' })
    await fault({ kind: 'blocked' })
    assert.deepEqual(await telegram().send(message), { kind: 'never', why: 'error 403' })
    await fault({ kind: 'moved', chat_id: -100777 })
    assert.deepEqual(await telegram().send(message), { kind: 'moved', chatId: '-100777' })
    await fault({ kind: 'lost' })
    assert.equal((await telegram().send(message)).kind, 'later')
    assert.equal((await telegram('12:revoked').send(message)).kind, 'later')
    const { messages } = (await (await fetch(`${sandbox.baseUrl}/_sandbox/telegram/messages`)).json()) as {
      messages: { chat_id: number; text: string }[]
    }
    assert.deepEqual(
      messages.map(({ chat_id: chat, text }) => [chat, text]),
      [
        [77, message.text],
        [77, message.text],
      ],
    )
    // The stand-in accepts what the real one accepts: a form and a query too.
    const form = await fetch(`${sandbox.baseUrl}/bot${token}/sendMessage`, {
      method: 'POST',
      body: new URLSearchParams({ chat_id: '5', text: 'form' }),
    })
    assert.equal(((await form.json()) as { result: { chat: { id: number } } }).result.chat.id, 5)
    const me = await fetch(`${sandbox.baseUrl}/bot${token}/getMe`)
    assert.equal(((await me.json()) as { result: { is_bot: boolean } }).result.is_bot, true)
    const empty = await fetch(`${sandbox.baseUrl}/bot${token}/sendMessage?chat_id=5`)
    assert.equal(empty.status, 400)
  })
})
