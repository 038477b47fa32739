import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import pino from 'pino'
import { type SealerDependencies, startSealer } from '../../../src/audit/seals/sealer.ts'
import { sealerLock } from '../../../src/audit/seals/sealing.ts'
import type { LogSealed } from '../../../src/domain/seals/events.ts'
import { isSelfSigned, sealStream } from '../../../src/kernel/streams.ts'
import { createBackgroundScheduler } from '../../../src/platform/commands/background-scheduler.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { isLocked } from '../../../src/platform/postgres/locks.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Audited, allEvents, appendEach, auditWorld, everyKind, testKey } from '../world.ts'

const sealsOf = async ({ log }: Pick<Audited, 'log'>): Promise<LogSealed['data'][]> => {
  const seals: LogSealed['data'][] = []
  for await (const { data } of log.readStream(sealStream)) seals.push(JSON.parse(data))
  return seals
}

const sealing = async (t: TestContext, every: { events: number; seconds: number }, key = testKey()) => {
  const world = await auditWorld(t)
  const { pool, log } = world
  const start = (more: Partial<SealerDependencies> = {}) => {
    const feed = createLogFeed({ log, decode: codec.decode, onError: () => undefined })
    const runner = runnerOver(log)
    /** The last failure that was logged; null after a seal. */
    let problem: string | null = null
    const logger = pino(
      { level: 'warn' },
      {
        write: (line) => {
          problem = JSON.parse(line).err?.message ?? problem
        },
      },
    )
    const backgroundScheduler = createBackgroundScheduler()
    const sealer = startSealer({
      scheduler: testScheduler({ pool }),
      pool,
      log,
      feed,
      runner,
      key,
      clock: Date.now,
      backgroundScheduler,
      logger,
      every,
      onSeal: () => {
        problem = null
      },
      ...more,
    })
    let stopped: Promise<void> | null = null
    const stop = async (): Promise<void> => {
      await sealer.stop()
      await feed.close()
      await runner.close()
    }
    const once = (): Promise<void> => {
      stopped ??= stop()
      return stopped
    }
    t.after(once)
    return { problem: () => problem, stop: once }
  }
  return { ...world, start }
}

/** One process holds the lock of who seals. */
const sealerLeads = ({ pool }: Pick<Audited, 'pool'>) =>
  until(() => isLocked(pool, sealerLock), { timeoutMs: 20_000, what: 'a process that seals' })

/** Seals are made about all events but their own. */
const allSealed = async (t: TestContext, url: string | undefined): Promise<void> => {
  const log = await openLog(url ?? '')
  t.after(() => log.close())
  const events = await allEvents(log)
  const later = events.slice((await sealsOf({ log })).at(-1)!.throughOrdinal)
  assert.deepEqual(
    later.filter(({ stream }) => !isSelfSigned(stream)),
    [],
  )
  assert.ok(events.some(({ type }) => type === 'OrderCompleted'))
}

const sealedThrough = (world: Pick<Audited, 'log'>, ordinal: number) =>
  until(async () => ((await sealsOf(world)).at(-1)?.throughOrdinal ?? 0) >= ordinal, {
    timeoutMs: 20_000,
    what: `a seal through ${ordinal}`,
  })

/** Seals are events too: those that come between push what they do not yet cover to higher ordinals. */
const sealedWhole = (world: Pick<Audited, 'log'>) =>
  until(
    async () => {
      const stored = await allEvents(world.log)
      const last = stored.findLastIndex(({ stream }) => !isSelfSigned(stream)) + 1
      return ((await sealsOf(world)).at(-1)?.throughOrdinal ?? 0) >= last
    },
    { timeoutMs: 20_000, what: 'a seal through the last event that needs one' },
  )

const slices = (events: readonly StoredEvent[], size: number): StoredEvent[][] =>
  Array.from({ length: Math.ceil(events.length / size) }, (_, n) => events.slice(n * size, (n + 1) * size))

describe('the sealer', () => {
  test('seals in time even if its sessions end repeatedly before', async (t) => {
    const world = await sealing(t, { events: 1_000, seconds: 4 })
    world.start()
    await appendEach(world.log, await everyKind())
    await until(
      async () => {
        await world.pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = 'farebox sealer' and datname = current_database()
              and backend_start < clock_timestamp() - interval '1 second'`,
        )
        return (await sealsOf(world)).length > 0
      },
      { timeoutMs: 20_000, what: 'a seal' },
    )
  })

  test('seals by count while events arrive, the rest by time, and never only seals', async (t) => {
    const world = await sealing(t, { events: 30, seconds: 1 })
    const warnings: string[] = []
    world.start({ logger: pino({ level: 'warn' }, { write: (line) => void warnings.push(line) }) })
    const events = await everyKind()
    for (const some of slices(events, 20)) await appendEach(world.log, some)
    const seals = await sealsOf(world)
    await sealedWhole(world)
    const head = await world.log.head()
    // Longer than the time after which anything new would be sealed.
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    assert.equal(await world.log.head(), head)
    assert.ok(seals.every(({ throughOrdinal }) => throughOrdinal >= 30))
    assert.deepEqual(warnings, [])
  })

  test('runs in one of two processes; when it stops, the other continues', async (t) => {
    const world = await sealing(t, { events: 20, seconds: 60 })
    const events = await everyKind()
    const [first, second] = [world.start(), world.start()]
    await appendEach(world.log, events.slice(0, 40))
    await sealedThrough(world, 20)
    await first.stop()
    await appendEach(world.log, events.slice(40))
    await sealedThrough(world, 70)
    assert.equal(second.problem(), null)
    const seals = await sealsOf(world)
    assert.deepEqual(
      seals.map(({ throughOrdinal }) => throughOrdinal),
      [...new Set(seals.map(({ throughOrdinal }) => throughOrdinal))].sort((a, b) => a - b),
    )
  })

  test('continues in another process when the sealing process hangs', async (t) => {
    const world = await sealing(t, { events: 20, seconds: 60 })
    const stopped = fork(join(import.meta.dirname, 'sealer-process.ts'), [world.url, '20', '2000'])
    t.after(async () => {
      stopped.kill('SIGKILL')
      await once(stopped, 'exit')
    })
    const events = await everyKind()
    await appendEach(world.log, events.slice(0, 20))
    await sealedThrough(world, 20)
    // While it runs it keeps its session, for longer than that may be without a word.
    const session = `select from pg_stat_activity where application_name = 'farebox sealer'
      and datname = current_database() and backend_start < clock_timestamp() - interval '3 seconds'`
    await until(async () => (await world.pool.query(session)).rowCount === 1, { what: 'an open session' })
    const heir = world.start()
    await appendEach(world.log, events.slice(20, 40))
    await sealedThrough(world, 40)
    stopped.kill('SIGSTOP')
    await appendEach(world.log, events.slice(40))
    await sealedThrough(world, 60)
    assert.equal(heir.problem(), null)
    stopped.kill('SIGCONT')
  })

  test('seals the end of the log on shutdown, unless that takes too long', async (t) => {
    const world = await sealing(t, { events: 1_000, seconds: 60 })
    const events = await everyKind()
    const first = world.start()
    await appendEach(world.log, events.slice(0, 40))
    await sealerLeads(world)
    await first.stop()
    assert.deepEqual(
      (await sealsOf(world)).map(({ throughOrdinal }) => throughOrdinal),
      [40],
    )
    // Nothing but a seal came since.
    const second = world.start()
    await sealerLeads(world)
    await second.stop()
    assert.equal((await sealsOf(world)).length, 1)
    const held = world.start({ cleared: () => new Promise(() => undefined), lastSealMs: 200 })
    await appendEach(world.log, events.slice(40))
    await sealerLeads(world)
    await held.stop()
    assert.equal((await sealsOf(world)).length, 1)
  })

  test('stops with an alarm when the log differs from what was sealed', async (t) => {
    const world = await sealing(t, { events: 20, seconds: 60 })
    const events = await everyKind()
    await appendEach(world.log, events.slice(0, 40))
    await world.seal()
    await world.pool.query(
      `update work.event_digests set digests = set_byte(digests, octet_length(digests) - 1, 0)`,
    )
    const sealer = world.start()
    await appendEach(world.log, events.slice(40))
    await until(() => sealer.problem(), { timeoutMs: 20_000, what: 'an alarm' })
    assert.match(sealer.problem() ?? '', /up to ordinal 40 are not those that were sealed/)
    assert.equal((await sealsOf(world)).length, 1)
  })

  test('leaves nothing unsealed when the service stops', async (t) => {
    const app = await testApp(t, { own: true, settings: { FAREBOX_SEAL_SECONDS: '3600' }, audits: true })
    await sealerLeads(app.core)
    const order = { product_id: 'residential-premium', quantity: 1 }
    assert.equal((await app.buyer.post('/api/v1/orders', order)).status, 201)
    await app.close()
    await allSealed(t, app.env.DATABASE_URL)
  })
})
