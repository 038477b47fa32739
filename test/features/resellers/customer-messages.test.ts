import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Message = { readonly chat_id: number; readonly text: string }

test('a customer gets one message when its payment placed the order, and a bot that is down delays nothing', async (t) => {
  const app = await testApp(t, { own: 'file', with: ['cardReseller'] })
  const { accountId, key } = app.seller
  const { sandbox } = app
  const messages = async (): Promise<readonly Message[]> =>
    ((await (await fetch(`${sandbox}/_sandbox/telegram/messages`)).json()) as { messages: Message[] })
      .messages
  const fault = async (body: object) => {
    const headers = { 'content-type': 'application/json' }
    await fetch(`${sandbox}/_sandbox/telegram`, { method: 'PUT', headers, body: JSON.stringify(body) })
  }
  const rows = async () =>
    (
      await app.core.pool.query<{ order_id: string; result: string | null; attempts: number }>(
        'select order_id, result, attempts from work.messages order by order_id',
      )
    ).rows
  const bot = await app.file('bot.json', { token: '123456:AbC', apiUrl: sandbox })
  await app.run('reseller', 'set', '--account', accountId, '--bot', bot)

  const short = await app.seller.order('alice', app.four, 'first')
  const { customers } = (await app.client.get('/api/v1/reseller/customers', { key })).body
  const path = `/api/v1/reseller/customers/${customers[0].customerId}`
  const patched = await app.client.call('PATCH', path, { key, json: { bot_chat_id: '4242' } })
  assert.equal(patched.status, 200, patched.text)

  await fault({ kind: 'error', times: 2 })
  await app.act(short.body.depositId, 'pay')
  const { order_id: orderId } = await app.untilDeposit(key, short.body.depositId, { status: 'paid' })
  assert.equal((await app.readOrder(key, orderId)).status, 'completed')
  await until(async () => (await messages()).length > 0, { timeoutMs: 40_000, what: 'the message' })
  const [message] = await messages()
  assert.equal(message?.chat_id, 4242)
  assert.match(message?.text ?? '', new RegExp(`4 IP of isp-static.*\nOrder ${orderId}\nAnn & Co$`, 's'))
  await until(async () => (await rows())[0]?.result === 'sent')
  assert.equal((await rows())[0]?.attempts, 3)

  // Read tables rebuilt from a log that was restored to an earlier point: the cursor is far ahead of all
  // events.
  // It starts over, and no customer gets a second message.
  await app.core.pool.query(`update work.message_cursor set position = 1000000000;
    update engine.checkpoints set lineage = gen_random_uuid() where name = 'hot'`)
  const other = await app.seller.order('bob', app.four, 'second')
  await app.act(other.body.depositId, 'pay')
  await until(
    async () => (await rows()).length === 2 && (await rows()).every(({ result }) => result !== null),
  )
  assert.deepEqual((await rows()).map(({ result }) => result).sort(), ['no chat', 'sent'])
  assert.equal((await messages()).length, 1)
})
