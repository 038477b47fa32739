import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { memoryRecords } from '../support/memory-records.ts'

test("a payment page says SANDBOX and the merchant's name as text, and its buttons work as labelled", async (t) => {
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
  assert.equal((await press({ action: 'pay:400' })).status, 200)
  assert.equal((await shown()).paid_cents, 400)
  await press({ action: 'twice:300' })
  assert.deepEqual([(await shown()).status, (await shown()).paid_cents], ['paid', 1000])
  await press({ action: 'amount', cents: '77' })
  assert.equal((await shown()).paid_cents, 1077)
  const refused = await press({ action: 'expire' })
  assert.equal(refused.status, 409)
  assert.match(await refused.text(), /the invoice is paid/)
  assert.equal((await press({ action: 'amount', cents: '-5' })).status, 409)
  assert.equal((await fetch(`${sandbox.baseUrl}/pay/nothing`)).status, 404)
})

const html = { accept: 'text/html' }

/** A sandbox with an invoice of BTCPay Server over $10.00 and one of Stripe over $10.00. */
const withInvoices = async (t: TestContext) => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const { baseUrl } = sandbox
  const post = async (path: string, headers: Record<string, string>, body: string) => {
    const response = await fetch(`${baseUrl}${path}`, { method: 'POST', headers, body })
    assert.equal(response.status, 200, await response.clone().text())
    return (await response.json()) as { checkoutLink: string; url: string }
  }
  const crypto = await post(
    '/btcpay/api/v1/stores/store/invoices',
    { authorization: 'token key', 'content-type': 'application/json' },
    JSON.stringify({
      amount: '10.00',
      currency: 'USD',
      metadata: { orderId: 'dep_crypto', itemDesc: 'Acme & Sons' },
      checkout: { expirationMinutes: 60, redirectURL: 'https://acme.example/' },
    }),
  )
  const card = await post(
    '/v1/checkout/sessions',
    { authorization: 'Bearer sk_test_key', 'content-type': 'application/x-www-form-urlencoded' },
    new URLSearchParams({
      mode: 'payment',
      client_reference_id: 'dep_card',
      success_url: 'https://acme.example/',
      cancel_url: 'https://acme.example/',
      'line_items[0][quantity]': '1',
      'line_items[0][price_data][currency]': 'usd',
      'line_items[0][price_data][unit_amount]': '1000',
      'line_items[0][price_data][product_data][name]': 'Acme card',
    }).toString(),
  )
  const page = async (path: string) => (await fetch(`${baseUrl}${path}`, { headers: html })).text()
  const press = (url: string, form: Record<string, string>) =>
    fetch(url, { method: 'POST', body: new URLSearchParams(form), redirect: 'manual' })
  return { baseUrl, page, press, crypto: crypto.checkoutLink, card: card.url }
}

test('the index lists open invoices with links, closed ones, and messages of bots', async (t) => {
  const { baseUrl, page, press, crypto, card } = await withInvoices(t)
  const first = await page('/')
  assert.match(first, /<h2 id="open">Open invoices \(2\)<\/h2>/)
  for (const link of [crypto, card]) assert.ok(first.includes(`href="${new URL(link).pathname}"`), link)
  assert.match(first, /Acme &amp; Sons/)
  assert.match(first, /Messages to Telegram \(0\)/)
  await press(card, { action: 'pay:1000' })
  await fetch(`${baseUrl}/bot1:secret/sendMessage`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ chat_id: 42, text: 'Your order <1> is there' }),
  })
  const then = await page('/')
  assert.match(
    then,
    /<h2 id="open">Open invoices \(1\)<\/h2>[\s\S]*<h2 id="closed">Closed invoices \(1\)<\/h2>/,
  )
  assert.match(then, /<p>Your order &lt;1&gt; is there<\/p><small>to chat 42<\/small>/)
})

test('the fault switches are a form on the index, and a wrong value changes nothing and is reported', async (t) => {
  const { baseUrl, page, press } = await withInvoices(t)
  const shown = async () =>
    Object.fromEntries(
      [...(await page('/')).matchAll(/name="(\w+)"(?: inputmode="decimal" value="([^"]*)"| checked)/g)].map(
        ([, name = '', value]) => [name, value ?? 'on'],
      ),
    )
  const numbers = { lost: '0', repeats: '0', reorderMs: '0', slowMs: '0', apiSlowMs: '0', apiCutShare: '1' }
  assert.deepEqual(await shown(), numbers)
  const form = {
    ...numbers,
    lost: '0.5',
    repeats: '2',
    down: 'on',
    apiCut: 'after',
    apiOf: 'btcpay',
    action: 'set',
  }
  const set = await press(`${baseUrl}/_sandbox/switches`, form)
  assert.deepEqual([set.status, set.headers.get('location')], [303, '/#switches'])
  assert.deepEqual(await shown(), { ...numbers, lost: '0.5', repeats: '2', down: 'on' })
  assert.match(await page('/'), /<option value="after" selected>[\s\S]*<option value="btcpay" selected>/)
  const wrong = await press(`${baseUrl}/_sandbox/switches`, { ...form, lost: '2' })
  assert.equal(wrong.status, 400)
  assert.match(await wrong.text(), /Nothing was changed\.[\s\S]*lost/)
  assert.deepEqual(await shown(), { ...numbers, lost: '0.5', repeats: '2', down: 'on' })
  await press(`${baseUrl}/_sandbox/switches`, { ...form, action: 'reset' })
  assert.deepEqual(await shown(), numbers)
})

test('a partially paid invoice shows the missing amount, on its page and on the index', async (t) => {
  const { page, press, crypto, card } = await withInvoices(t)
  const status = async (url: string) =>
    /<dt>Status<\/dt><dd>([^<]*)/.exec(await page(new URL(url).pathname))?.[1]
  assert.equal(await status(crypto), 'waits for payment')
  await press(crypto, { action: 'pay:400' })
  assert.equal(await status(crypto), 'waits for payment, $6.00 of $10.00 missing')
  await press(crypto, { action: 'expire' })
  assert.equal(await status(crypto), 'closed, paid in part, $6.00 of $10.00 missing')
  await press(card, { action: 'pay:500' })
  assert.equal(await status(card), 'paid, $5.00 of $10.00 missing')
  assert.match(await page('/'), /paid, \$5\.00 of \$10\.00 missing · Stripe Checkout/)
})

test('an unknown address is a page with a link back for a browser, and JSON for a program', async (t) => {
  const { baseUrl } = await withInvoices(t)
  for (const path of ['/pay/nothing', '/nothing']) {
    const response = await fetch(`${baseUrl}${path}`, { headers: html })
    const page = await response.text()
    assert.equal(response.status, 404)
    assert.match(page, /<header>SANDBOX[\s\S]*<style>|<style>[\s\S]*<header>SANDBOX/)
    assert.match(page, /<h1>No (?:invoice|page) has this address<\/h1>[\s\S]*<a class="back" href="\/">/)
  }
  const program = await fetch(`${baseUrl}/nothing`)
  assert.deepEqual(
    [program.status, await program.json()],
    [404, { error: 'SANDBOX: nothing has this address' }],
  )
})
