import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { SandboxInvoice } from '../../src/sandbox/invoice.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { call, dataDirectory, startFarebox } from '../support/farebox.ts'
import { openFront } from '../support/front.ts'
import { memoryRecords } from '../support/memory-records.ts'
import { operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

const amountCents = 5_000

test('a process that is killed after it charged a saved card has charged it once, and the next one credits it once', async (t) => {
  const records = memoryRecords()
  const sandbox = await startSandbox({ records, clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const front = await openFront(t)
  const dataDir = await dataDirectory(t)
  const env = {
    ...(await seededDatabase(t, dataDir)),
    FAREBOX_SANDBOX_URL: sandbox.baseUrl,
    FAREBOX_PUBLIC_URL: front.url,
  }
  const start = async (settings: NodeJS.ProcessEnv = {}) => {
    const server = await startFarebox(t, { ...env, ...settings })
    front.add(server.baseUrl)
    void server.ended.then(() => front.remove(server.baseUrl))
    return { server, path: `${server.baseUrl}/api/v1/wallet` }
  }
  const chargesOf = async () => (await records.all<SandboxInvoice>('invoice')).filter(({ byCard }) => byCard)
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const { key } = demo.buyer as { readonly key: string }

  const first = await start()
  const startCents = (await call(first.path, key)).body.balanceCents
  const { url } = (await call(`${first.path}/auto-topup/card`, key, { method: 'POST' })).body
  const sent = await fetch(url, {
    method: 'POST',
    body: new URLSearchParams({ card: 'good' }),
    redirect: 'manual',
  })
  assert.equal(sent.status, 303)
  await until(async () => (await call(`${first.path}/auto-topup`, key)).body.card, { what: 'the saved card' })
  await first.server.stop()

  for (const [n, lost] of [
    [1, 1],
    [2, 0],
  ] as const) {
    await fetch(`${sandbox.baseUrl}/_sandbox/switches`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ lost }),
    })
    const victim = await start({ FAREBOX_CRASH_AT: 'topup-charged:1' })
    const settings = { thresholdCents: 400_000, amountCents, monthlyMaxCents: n * amountCents }
    await call(`${victim.path}/auto-topup`, key, { method: 'PUT', body: settings }).catch(() => null)
    assert.equal((await victim.server.ended).signal, 'SIGKILL')
    assert.equal((await chargesOf()).length, n)

    const next = await start()
    await until(
      async () => {
        const { body } = await call(`${next.path}/auto-topup`, key)
        return !body.pending && body.monthCents === n * amountCents
      },
      { what: 'the end of the top-up' },
    )
    await sandbox.idle()
    assert.equal((await call(next.path, key)).body.balanceCents, startCents + n * amountCents)
    const { transactions } = (await call(`${next.path}/transactions`, key)).body
    const credits = transactions.filter(
      (one: { type: string; amountCents: number }) =>
        one.type === 'deposit' && one.amountCents === amountCents,
    )
    assert.equal(credits.length, n)
    assert.equal((await chargesOf()).length, n)
    await next.server.stop()
  }
  for (const command of ['seal', 'verify']) {
    const ran = await operate(['ledger', command], env)
    assert.equal(ran.code, 0, `${ran.out}${ran.err}`)
  }
})
