import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type CrashPoint, paymentPoints } from '../../src/kernel/crash-points.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { call, dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { type Front, openFront } from '../support/front.ts'
import { memoryRecords } from '../support/memory-records.ts'
import { operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'
import { audit, type Party, trade, type World } from './payment-world.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const rounds = soak ? 12 : 1
const randomKills = soak ? 60 : 2
const payers = soak ? 6 : 3
/**
 * A soak opens some 16,000 deposits, each polled every quarter of a minute, which takes two processes
 * minutes.
 */
const patienceMs = soak ? 900_000 : 60_000
/** Between any two steps: the named ones of a payment's way, and around every append. */
const points: readonly CrashPoint[] = [...paymentPoints, 'before-append', 'after-append']

const found: World['found'] = {
  kills: {},
  answers: 0,
  unanswered: 0,
  invoices: {},
  payments: 0,
  late: 0,
  cents: 0,
}
after(() => {
  process.stdout.write(`# payment chaos: ${JSON.stringify(found)}\n`)
})

const setUp = async (t: TestContext): Promise<{ world: World; front: Front; env: NodeJS.ProcessEnv }> => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const front = await openFront(t)
  const dataDir = await dataDirectory(t)
  const env = {
    ...(await seededDatabase(t, dataDir)),
    FAREBOX_SANDBOX_URL: sandbox.baseUrl,
    FAREBOX_PUBLIC_URL: front.url,
    FAREBOX_DEPOSIT_LOOK_MS: '500',
  }
  const first = await startFarebox(t, env)
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const gateway = ['reseller', 'gateway', '--account', demo.reseller.accountId, '--sandbox', '--rail']
  for (const rail of [
    ['card', '--provider', 'stripe'],
    ['crypto', '--provider', 'nowpayments'],
  ]) {
    const set = await operate([...gateway, ...rail], env)
    assert.equal(set.code, 0, set.err)
  }
  const party = async ({ accountId, key }: Party, customers: Party['customers']): Promise<Party> => {
    const { body } = await call(`${first.baseUrl}/api/v1/wallet`, key)
    return { accountId, key, customers, startCents: body.balanceCents }
  }
  const parties = [await party(demo.buyer, [null]), await party(demo.reseller, [null, 'ann', 'bob', 'cy'])]
  // Both processes have loaded the gateways before the first trade.
  await until(async () => {
    const answer = await call(`${first.baseUrl}/api/v1/deposits`, demo.reseller.key, {
      body: { amount_cents: 300, method: 'crypto' },
      headers: { 'Idempotency-Key': 'probe', 'X-Reseller-Customer-Id': 'probe' },
    })
    return answer.status === 200
  })
  await first.stop()
  return { world: { sandbox: sandbox.baseUrl, parties, requests: [], found }, front, env }
}

describe('payments through two processes on one database that are killed', () => {
  test('are credited once each, for three providers and any moment of a kill', async (t) => {
    const { world, front, env } = await setUp(t)
    world.requests.push({
      party: world.parties[1] as Party,
      customer: 'probe',
      name: 'probe',
      body: { amount_cents: 300, method: 'crypto' },
      payUrls: new Map(),
      unheard: true,
    })
    /** A process of the two; one that reaches its point before it is ready has died like another. */
    const start = async (crashAt?: string): Promise<FareboxProcess | null> => {
      const own = crashAt === undefined ? env : { ...env, FAREBOX_CRASH_AT: crashAt }
      const running = await startFarebox(t, own).catch((error: Error) => {
        assert.match(error.message, /^Farebox ended/)
        return null
      })
      if (running === null) return null
      front.add(running.baseUrl)
      void running.ended.then(() => front.remove(running.baseUrl))
      return running
    }
    const count = (what: string): void => {
      found.kills[what] = (found.kills[what] ?? 0) + 1
    }
    /** The other one sometimes dies in the midst of it, and comes back. */
    const other = { process: await start() }
    const shake = async (): Promise<void> => {
      if (randomInt(soak ? 2 : 4) > 0) return
      await sleep(randomInt(1_500))
      await other.process?.kill()
      count('random')
      other.process = await start()
    }
    const home = trade(world, front.url, payers, soak ? 250 : 1_000)
    for (let round = 0; round < rounds; round += 1)
      for (const point of points) {
        const victim = await start(`${point}:${2 + randomInt(6)}`)
        const timer = setTimeout(() => void victim?.kill(), 15_000)
        await Promise.all([victim?.ended, shake()])
        clearTimeout(timer)
        count(point)
      }
    for (let kill = 0; kill < randomKills; kill += 2) {
      const second = await start()
      await sleep(200 + randomInt(1_500))
      // Both at once: no process is left to receive a callback.
      await Promise.all([second?.kill(), other.process?.kill()])
      count('both at once')
      other.process = await start()
    }
    await home()
    const last = await start()
    assert.ok(last && other.process)
    await audit(world, last.baseUrl, patienceMs)
    assert.deepEqual(Object.keys(found.invoices).sort(), ['btcpay', 'nowpayments', 'stripe'])
    // One credit a payment, in the log itself.
    const client = new pg.Client({ connectionString: env.DATABASE_URL })
    await client.connect()
    const { rows } = await client.query<{ total: string }>(
      `select count(*) as total from log.events where type = 'DepositPaymentCredited'`,
    )
    // A key has one open deposit: the next one is opened after the former one closed.
    const { rows: steps } = await client.query<{ deposit: string; opened: string; closed: string | null }>(
      `select data::json ->> 'depositId' as deposit,
              min(position) filter (where type = 'DepositOpened') as opened,
              min(position) filter (where type in ('DepositSettled', 'DepositExpired', 'DepositFailed')) as closed
         from log.events where type like 'Deposit%' group by 1`,
    )
    await client.end()
    const stepsOf = new Map(steps.map((step) => [step.deposit, step]))
    for (const { payUrls } of world.requests)
      for (const [n, depositId] of [...payUrls.keys()].entries()) {
        const former = stepsOf.get([...payUrls.keys()][n - 1] ?? '')
        if (!former) continue
        assert.ok(former.closed !== null, `${depositId} followed one that is open`)
        assert.ok(
          Number(former.closed) < Number(stepsOf.get(depositId)?.opened),
          `${depositId} came too early`,
        )
      }
    assert.equal(Number(rows[0]?.total), found.payments)
    assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
    const verified = await operate(['ledger', 'verify'], env)
    assert.equal(verified.code, 0, verified.out + verified.err)
    await Promise.all([last.stop(), other.process.stop()])
  })
})
