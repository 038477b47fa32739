import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startSandbox } from '../../src/sandbox/server.ts'
import { memoryRecords } from '../support/memory-records.ts'

test('a pay page says SANDBOX and the name of the merchant as text, and its buttons do what they say', async (t) => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const made = await fetch(`${sandbox.baseUrl}/btcpay/api/v1/stores/store/invoices`, {
    method: 'POST',
    headers: { authorization: 'token key', 'content-type': 'application/json' },
    body: JSON.stringify({
      amount: '10.00',
      currency: 'USD',
      metadata: { orderId: 'dep_a', itemDesc: 'Acme <b>& Sons</b>: account credit' },
      checkout: { expirationMinutes: 60, redirectURL: 'https://acme.example/' },
    }),
  })
  const { checkoutLink } = (await made.json()) as { checkoutLink: string }
  const page = await (await fetch(checkoutLink)).text()
  assert.match(page, /<header>SANDBOX/)
  assert.match(page, /Acme &lt;b&gt;&amp; Sons/)
  assert.doesNotMatch(page, /<b>& Sons/)
  const press = (form: Record<string, string>) =>
    fetch(checkoutLink, { method: 'POST', body: new URLSearchParams(form) })
  const shown = async () =>
    (await (await fetch(`${sandbox.baseUrl}/_sandbox/invoices/dep_a`)).json()) as {
      status: string
      paid_cents: number
    }
  assert.equal((await press({ deed: 'pay:400' })).status, 200)
  assert.equal((await shown()).paid_cents, 400)
  await press({ deed: 'twice:300' })
  assert.deepEqual([(await shown()).status, (await shown()).paid_cents], ['paid', 1000])
  await press({ deed: 'amount', cents: '77' })
  assert.equal((await shown()).paid_cents, 1077)
  const refused = await press({ deed: 'expire' })
  assert.equal(refused.status, 409)
  assert.match(await refused.text(), /the invoice is paid/)
  assert.equal((await press({ deed: 'amount', cents: '-5' })).status, 409)
  assert.equal((await fetch(`${sandbox.baseUrl}/pay/nothing`)).status, 404)
})
