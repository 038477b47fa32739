import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from '../support/fast-check.ts'
import type { Called } from '../support/http.ts'
import { mostHeldMs, watchMainThread } from '../support/main-thread.ts'
import { operator } from '../support/operator.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { type Caller, type DeclaredOperation, operationsOf, requestsOf } from './generated.ts'
import { liveOf } from './live.ts'
import { finishedBatch } from './scrape-cases.ts'

const runs = process.env.FAREBOX_SOAK ? 1_000 : 75
const least = 0.2

const callersOf = async (app: TestApp): Promise<Caller[]> => {
  const { client, demo, credit, payCustomer } = app
  const batchIds = [await finishedBatch(app)]
  const callers = []
  for (const [account, reseller] of [
    [demo.buyer, false],
    [demo.reseller, true],
  ] as const) {
    await credit(account.accountId, 1_000_000_000)
    for (const ref of reseller ? ['ann', 'bob'] : []) await payCustomer(account.accountId, ref, 1_000)
    callers.push({ key: account.key, live: await liveOf(client, account.key, batchIds, reseller), reseller })
  }
  return callers
}

/** A good request for what can be done only so often: ten endpoints an account, each thing removed and each address replaced once. */
const isSpent = ({ operationId }: DeclaredOperation, { body }: Called): boolean =>
  (operationId === 'createWebhook' && body?.code === 'webhook_limit_reached') ||
  (operationId === 'cancelOrder' && body?.code === 'order_not_waiting') ||
  (operationId === 'replaceProxy' && body?.code === 'replacement_limit_reached') ||
  (operationId === 'deleteWebhook' && body?.error === 'no webhook has this id') ||
  (operationId === 'removeTrafficBudget' && body?.error === 'no traffic budget has this id') ||
  (operationId === 'removeFromWhitelist' && body?.error === 'the plan has no such entry on its whitelist')

/** Keys without the needed right, and no key. */
const otherKeysOf = async ({ demo, customer, accounts }: TestApp) => {
  const blocked = await customer({ cents: 1_000 })
  await accounts.block(blocked.accountId, 'chargebacks', operator)
  return [demo.scraper.key, blocked.key, `fbx_${'0'.repeat(40)}`, 'unknown', undefined]
}

test('every request gets a declared response, is charged only if the response says so, and blocks the main thread only briefly', async (t) => {
  const app = await testApp(t, { own: true, with: ['financeToken'] })
  const { client, document, balance } = app
  await app.run('reseller', 'set', '--account', app.demo.reseller.accountId, '--price-limits', '0.01-100')
  const callers = await callersOf(app)
  const otherKeys = await otherKeysOf(app)
  const balances = async () => [await balance(callers[0]!.key), await balance(callers[1]!.key)]

  const { stop } = watchMainThread(Number(new URL(app.baseUrl).port))
  const counts = { operations: 0, requests: 0, succeeded: 0 }
  const tell = (): void => void process.stdout.write(`# generated requests: ${JSON.stringify(counts)}\n`)
  const shareOf = async (operation: DeclaredOperation): Promise<number> => {
    let sent = 0
    let succeeded = 0
    let before = await balances()
    const [buyer] = callers as [Caller]
    const ownKey = operation.path.startsWith('/finance/')
      ? app.financeToken
      : /^\/(?:v1\/scrape\/|api\/v1\/scrapes$)/.test(operation.path)
        ? app.demo.scraper.key
        : null
    const asking = ownKey === null ? callers : [{ ...buyer, key: ownKey }]
    const requests = requestsOf(operation, asking, document, otherKeys)
    await fc.assert(
      fc.asyncProperty(requests, async ({ path, key, headers, raw }) => {
        const send = () =>
          client.call(operation.method, path, {
            headers,
            ...(key !== undefined && { key }),
            ...(raw !== undefined && { raw }),
          })
        // Whether a request was charged that an overloaded machine answers with 503 is known when it is sent again.
        let answer = await send()
        for (let n = 0; n < 10 && answer.status === 503; n += 1) answer = await send()
        sent += 1
        if (answer.status < 300 || isSpent(operation, answer)) succeeded += 1
        if (operation.method === 'GET') return
        // An order that awaits its payment has taken nothing yet.
        const paid = answer.status === 201 && answer.body.status !== 'awaiting_payment'
        const charged = paid ? (answer.body.amountCents ?? 0) : 0
        const expected = before.map((cents, at) => (key === callers[at]?.key ? cents - charged : cents))
        before = await balances()
        assert.deepEqual(before, expected, `${answer.status}: ${answer.text}`)
      }),
      { numRuns: runs },
    )
    counts.operations += 1
    counts.requests += sent
    counts.succeeded += succeeded
    return succeeded / sent
  }

  for (const operation of operationsOf(document))
    await t.test(`${operation.method} ${operation.path}`, async () => {
      const before = await balances()
      const share = await shareOf(operation)
      const after = await balances()
      if (operation.method === 'GET') assert.deepEqual(after, before, 'a read moved money')
      t.diagnostic(`${operation.operationId}: ${Math.round(share * 100)} % of ${runs} requests succeed`)
      assert.ok(share >= least, `only ${share} of the requests succeed`)
      if (counts.operations % 10 === 0) tell()
    })
  tell()
  const [longest] = await stop()
  t.diagnostic(`held the main thread for longest: ${JSON.stringify(longest ?? 'all under 10 ms')}`)
  assert.ok((longest?.heldMs ?? 0) < mostHeldMs, JSON.stringify(longest))
})
