import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { memoryRecords } from '../support/memory-records.ts'

const open = async (t: TestContext) => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const statusFor = (host: string, path: string, method = 'GET'): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      request(`${sandbox.baseUrl}${path}`, { method, headers: { host }, agent: false }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
        .on('error', reject)
        .end()
    })
  return { ...sandbox, statusFor }
}

test('a page of another site cannot call the stand-ins under its own name (DNS rebinding)', async (t) => {
  const { baseUrl, statusFor } = await open(t)
  const port = new URL(baseUrl).port
  const strange = ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', '127.0.0.1@evil.example']
  for (const host of [...strange, 'localhost.evil.example', '10.0.0.1', '[::2]', 'a b'])
    for (const [method, path] of [
      ['GET', '/_sandbox/invoices'],
      ['PUT', '/_sandbox/switches'],
      ['GET', '/pay/nothing'],
      ['POST', '/v1/checkout/sessions'],
      ['GET', '/nowhere'],
    ] as const)
      assert.equal(await statusFor(host, path, method), 421, `${host} ${path}`)
  for (const host of [`127.0.0.1:${port}`, 'localhost', 'LOCALHOST:9999', '[::1]:80'])
    assert.equal(await statusFor(host, '/_sandbox/invoices'), 200, host)
})

test('pages run no script, and load no style but their own', async (t) => {
  const { baseUrl } = await open(t)
  const made = await fetch(`${baseUrl}/btcpay/api/v1/stores/store/invoices`, {
    method: 'POST',
    headers: { authorization: 'token key', 'content-type': 'application/json' },
    body: JSON.stringify({
      amount: '10.00',
      currency: 'USD',
      metadata: { orderId: 'dep_a', itemDesc: 'Acme' },
      checkout: { expirationMinutes: 60, redirectURL: 'https://acme.example/' },
    }),
  })
  const { checkoutLink } = (await made.json()) as { checkoutLink: string }
  for (const url of [checkoutLink, `${baseUrl}/pay/nothing`, `${baseUrl}/`]) {
    const response = await fetch(url, { headers: { accept: 'text/html' } })
    const page = await response.text()
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, /^default-src 'none'; /)
    assert.match(policy, /form-action 'self'; base-uri 'none'; frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /unsafe|script-src/)
    for (const [, style = ''] of page.matchAll(/<style>(.*?)<\/style>/gs))
      assert.ok(policy.includes(`'sha256-${createHash('sha256').update(style).digest('base64')}'`))
    assert.doesNotMatch(page, /<script| on[a-z]+=| style=/)
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff')
  }
  const plain = await fetch(`${baseUrl}/_sandbox/invoices`)
  assert.equal(plain.headers.get('content-security-policy'), "default-src 'none'; frame-ancestors 'none'")
})
