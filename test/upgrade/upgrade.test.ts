import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { atEnd } from '../support/cleanup.ts'
import { asOperator, demoEnv } from '../support/demo-env.ts'
import { call, dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { hasCommit, oldVersion } from '../support/old-version.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { assertVerified } from '../support/verify.ts'

/** What customers may run today: the release, and commits that were installed from the repository. */
const versions = [
  { name: '0.1.0', commit: '9867913c' },
  { name: 'f0edc1d, without signatures', commit: 'f0edc1d5' },
  { name: 'd9393f12, with signatures', commit: 'd9393f12' },
] as const

const soak = process.env.FAREBOX_SOAK === '1'
/** How long the older version runs next to the newer one, milliseconds. */
const besideMs = soak ? 9_000 : 2_000
const clients = 4
const purchase = { product_id: 'residential-premium', quantity: 1 }

/** Some clients of one account order all the time, and ask again under the same key until they have an answer. */
const placeOrders = (
  t: TestContext,
  { key, oldUrl, baseUrlOf }: { key: string; oldUrl: string; baseUrlOf: (client: number) => string },
) => {
  const placed: string[] = []
  const statuses = new Map<number, number>()
  let going = true
  atEnd(t, () => {
    going = false
  })
  const order = async (client: number, idempotencyKey: string): Promise<string | null> => {
    while (going) {
      const url = baseUrlOf(client)
      const answer = await call(`${url}/api/v1/orders`, key, {
        body: purchase,
        headers: { 'Idempotency-Key': idempotencyKey },
      }).catch(() => null)
      const status = answer?.status ?? 0
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status === 200 || status === 201) return answer!.body.orderId
      // The older version reads tables that the migration changed, and its code is as it is.
      assert.ok(
        status === 0 || status === 503 || (status === 500 && url === oldUrl),
        `${url} answered an order with ${status}: ${JSON.stringify(answer?.body)}`,
      )
      await sleep(20)
    }
    return null
  }
  const buy = async (client: number): Promise<void> => {
    while (going) {
      const id = await order(client, randomUUID())
      if (id !== null) placed.push(id)
      await sleep(100)
    }
  }
  const running = Promise.all(Array.from({ length: clients }, (_, client) => buy(client)))
  let failure: unknown = null
  running.catch((error) => {
    failure = error
  })
  return {
    statuses,
    /** @returns once so many more orders are placed */
    more: async (count: number): Promise<void> => {
      const enough = placed.length + count
      await until(() => failure !== null || placed.length >= enough, { timeoutMs: 60_000 })
      if (failure !== null) throw failure
    },
    placed,
    stop: async () => {
      going = false
      await running
    },
  }
}

const startOld = async (t: TestContext, commit: string) => {
  const { url } = await emptyDatabase(t)
  const env = { ...demoEnv(url, await dataDirectory(t)), FAREBOX_SEAL_SECONDS: '1' }
  const old = await startFarebox(t, env, [], { from: await oldVersion(t, commit) })
  const { reseller } = (await readDemoFile(env.FAREBOX_DATA))!
  return { env, old, reseller }
}

/** All orders are there, everything is sealed, and no invariant is broken. */
const assertWhole = async (
  t: TestContext,
  env: ReturnType<typeof demoEnv>,
  { baseUrl }: FareboxProcess,
  key: string,
  placed: readonly string[],
): Promise<void> => {
  for (const id of placed) assert.equal((await call(`${baseUrl}/api/v1/orders/${id}`, key)).status, 200, id)
  const pool = createPool({ url: env.DATABASE_URL, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const log = await openLog(env.DATABASE_URL)
  atEnd(t, () => log.close())
  // The seal itself follows, and the key of the auditor that wrote it.
  const isSealed = async (): Promise<boolean> => {
    const { seals } = await listSeals(log, { limit: 1, offset: 0 })
    const { rows } = await pool.query<{ type: string }>(
      'select type from log.events where position > $1 order by position',
      [seals[0]?.throughOrdinal ?? 0],
    )
    return ['LogSealed', 'ProcessKeyIntroduced,LogSealed'].includes(rows.map(({ type }) => type).join())
  }
  await until(isSealed, { timeoutMs: 60_000, what: 'a seal over all events' })
  const ready = await fetch(`${baseUrl}/readyz`, asOperator)
  assert.equal(ready.status, 200, await ready.text())
  const sealKey = Buffer.from(env.FAREBOX_SEAL_KEY, 'base64')
  await assertVerified({ pool, log, sealKey }, { timeoutMs: 60_000 })
}

/** The version with unsigned events is in every run; the others are in the soak. */
for (const { name, commit } of versions.slice(soak ? 0 : 1, soak ? undefined : 2)) {
  const skip = (await hasCommit(commit))
    ? false
    : `this clone has no commit ${commit}: fetch the whole history`

  test(`an upgrade from ${name} while the older version runs loses no order and blocks no account`, {
    skip,
  }, async (t) => {
    const { env, old, reseller } = await startOld(t, commit)
    let urls = [old.baseUrl]
    const load = placeOrders(t, {
      key: reseller.key,
      oldUrl: old.baseUrl,
      baseUrlOf: (client) => urls[client % urls.length]!,
    })
    await load.more(20)
    const newer = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
    urls = [newer.baseUrl, old.baseUrl]
    await sleep(besideMs)
    urls = [newer.baseUrl]
    await old.stop()
    await load.more(20)
    await load.stop()
    t.diagnostic(`${load.placed.length} orders; answers by status: ${JSON.stringify([...load.statuses])}`)
    await assertWhole(t, env, newer, reseller.key, load.placed)
  })

  test(`an upgrade from ${name} after the older version stopped loses no order and blocks no account`, {
    skip,
  }, async (t) => {
    const { env, old, reseller } = await startOld(t, commit)
    let url = old.baseUrl
    const load = placeOrders(t, { key: reseller.key, oldUrl: old.baseUrl, baseUrlOf: () => url })
    await load.more(20)
    await old.stop()
    const newer = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
    url = newer.baseUrl
    await load.more(20)
    await load.stop()
    await assertWhole(t, env, newer, reseller.key, load.placed)
  })
}
