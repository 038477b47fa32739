import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KeyScope } from '../../../src/kernel/scopes.ts'
import { operationsOf } from '../../contract/generated.ts'
import { testApp } from '../../support/test-app.ts'

test('a key may call the operations of its scopes, and a key that only reads changes nothing', async (t) => {
  const app = await testApp(t)
  const { accountId } = await app.customer({ cents: 0 })
  const keyOf = (scope: KeyScope) => app.issueKey(accountId, null, [scope])
  const keys = { buy: await keyOf('buy'), scrape: await keyOf('scrape'), read: await keyOf('read') }
  const operations = operationsOf(app.document).filter(
    ({ path, method }) =>
      !path.startsWith('/finance/') &&
      JSON.stringify(app.document.paths[path]?.[method.toLowerCase()]).includes('"ApiKey"'),
  )
  const allowed = async (scope: KeyScope) => {
    const names: string[] = []
    for (const { method, path, operationId } of operations) {
      const { body } = await app.client.call(method, path.replaceAll(/\{\w+\}/g, 'none'), {
        key: keys[scope],
      })
      if (body?.code !== 'missing_scope') names.push(`${method} ${operationId}`)
    }
    return new Set(names)
  }
  const [buy, scrape, read] = [await allowed('buy'), await allowed('scrape'), await allowed('read')]
  const everything = operations.map(({ method, operationId }) => `${method} ${operationId}`)

  assert.deepEqual(
    [...read],
    everything.filter((name) => name.startsWith('GET ')),
  )
  for (const name of everything) assert.ok(buy.has(name) || scrape.has(name), name)
  for (const name of ['getWallet', 'listTransactions', 'listWebhooks', 'listScrapeUsage', 'getMe'])
    assert.ok(scrape.has(`GET ${name}`), `${name} of ${[...scrape].join(', ')}`)
  for (const name of ['createOrder', 'createWebhook', 'createDeposit']) assert.ok(!scrape.has(`POST ${name}`))
  assert.ok(everything.some((name) => name.startsWith('GET ') && !scrape.has(name)))
})
