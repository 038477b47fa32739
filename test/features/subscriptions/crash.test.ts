import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call, dataDirectory, runToEnd, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { seededDatabase } from '../../support/seeded.ts'
import { until } from '../../support/until.ts'

const dayMs = 86_400_000
const price = 550

test('two processes that are killed while a month passes renew once', async (t) => {
  const dataDir = await dataDirectory(t)
  const env = { ...(await seededDatabase(t, dataDir)), LOG_LEVEL: 'fatal' }
  const first = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const credit = ['--account', buyer.accountId, '--cents', '100000', '--reference', randomUUID()]
  assert.equal((await operate(['wallet', 'credit', ...credit], env)).code, 0)
  const paths: string[] = []
  for (let n = 0; n < 10; n += 1) {
    const { status, body } = await call(`${first.baseUrl}/api/v1/subscriptions`, buyer.key, {
      body: { product_id: 'residential-premium', quantity: 1, interval: 'month' },
    })
    assert.equal(status, 201)
    paths.push(`/api/v1/subscriptions/${body.subscriptionId}`)
  }
  const balance = async (baseUrl: string): Promise<number> =>
    (await call(`${baseUrl}/api/v1/wallet`, buyer.key)).body.balanceCents
  const before = await balance(first.baseUrl)
  await first.stop()

  // A month later two processes wake up; each dies at its first renewals, again and again.
  const later = { ...env, FAREBOX_CLOCK_OFFSET_MS: String(32 * dayMs) }
  const roles = ['projections', 'reactors']
  for (const at of ['before-append:1', 'after-append:1', 'before-answer:2']) {
    const two = [0, 1].map(() => runToEnd(t, { ...later, FAREBOX_CRASH_AT: at }, roles))
    // A process that finds no more work does not end; it continues with the others.
    await Promise.race([Promise.all(two), sleep(4_000, undefined, { ref: false })])
  }
  const last = await startFarebox(t, later)
  const records = await until(
    async () => {
      const read = await Promise.all(paths.map((path) => call(`${last.baseUrl}${path}`, buyer.key)))
      return read.every(({ body }) => body.currentPeriodStart !== body.startedAt)
        ? read.map(({ body }) => body)
        : null
    },
    { timeoutMs: 20_000, what: 'the renewals' },
  )
  for (const { startedAt, currentPeriodStart } of records) assert.notEqual(startedAt, currentPeriodStart)
  assert.equal(await balance(last.baseUrl), before - paths.length * price, 'a period was charged twice')
  await last.stop()
})
