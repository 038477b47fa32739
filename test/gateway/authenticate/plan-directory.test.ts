import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { planFold, planRef } from '../../../src/domain/plans/fold.ts'
import { createPlanDirectory } from '../../../src/gateway/authenticate/plan-directory.ts'
import { newEventId, type PlanId } from '../../../src/kernel/ids.ts'
import { createStreamStates } from '../../../src/platform/commands/log-states.ts'
import { createPostgresSnapshots } from '../../../src/platform/commands/snapshots.ts'
import { encode } from '../../../src/platform/eventstore/codec.ts'
import { LogUnavailable } from '../../../src/platform/eventstore/errors.ts'
import { openPlanOf } from '../../features/plans/open-plan.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The service of the file, and the plan directory of a gateway on its database that counts its reads of the log. */
const directoryOf = async (t: TestContext) => {
  const { farebox } = await testApp(t, { own: 'file' })
  const { pool, log, keys, logger, runner } = farebox.core
  const { rows } = await pool.query('select account_id from read.accounts limit 1')
  const [{ account_id: accountId }] = rows
  const reads = { queries: 0, events: 0 }
  let away = false
  let laterMs = 0
  const snapshots = createPostgresSnapshots({ pool, keys, logger })
  const stateOf = createStreamStates(
    {
      readStreams: async (tails, limitEach) => {
        if (away) throw new LogUnavailable('the log is away')
        const pages = await log.readStreams(tails, limitEach)
        reads.queries += 1
        for (const page of pages.values()) reads.events += page.length
        return pages
      },
    },
    { snapshots: { store: snapshots, logId: log.logId, logger }, whileAway: 'error' },
  )
  const monotonicMs = () => laterMs
  const { find } = createPlanDirectory({ pool, stateOf, monotonicMs, logger })
  return {
    pool,
    log,
    find,
    snapshots,
    /** Opens a plan, and waits for its row. */
    open: async (name: string): Promise<PlanId> => {
      const planId = `pln_${name}` as PlanId
      await openPlanOf(runner, `ord_${name}`, { planId, bytes: 1_000, accountId })
      const row = 'select from read.plans where plan_id = $1'
      await until(async () => (await pool.query(row, [planId])).rowCount === 1)
      return planId
    },
    /** The log reads since the last call. */
    read: () => {
      const { queries, events } = reads
      Object.assign(reads, { queries: 0, events: 0 })
      return { queries, events }
    },
    turnLog: (to: 'away' | 'back') => {
      away = to === 'away'
    },
    wait: (ms: number) => {
      laterMs += ms
    },
  }
}

test('plans requested at once cost one query of the log, and none again while their rows do not change', async (t) => {
  const { pool, open, find, read, wait } = await directoryOf(t)
  const planIds = await Promise.all(Array.from({ length: 20 }, (_, n) => open(`known${n}`)))
  const findAll = () => Promise.all(planIds.map((planId) => find(planId)))
  await findAll()
  const { queries } = read()
  // Each row comes back when its own query does; those that come while the log is read share the next query.
  assert.ok(queries >= 1 && queries <= 10, `${queries}`)
  for (let n = 0; n < 8; n += 1) {
    wait(1_100)
    await findAll()
  }
  assert.deepEqual(read(), { queries: 0, events: 0 })
  await pool.query('update read.plans set generation = 1 where plan_id = $1', [planIds[0]])
  wait(1_100)
  const [plan] = await findAll()
  assert.equal(plan?.generation, 0)
  assert.equal(read().queries, 1)
})

test('a plan with thousands of events is read from its snapshot on', async (t) => {
  const { log, snapshots, open, find, read } = await directoryOf(t)
  const planId = await open('long')
  const { stream } = planRef(planId)
  const metadata = {
    recordedAt: new Date().toISOString(),
    actor: { kind: 'system', name: 'test' },
    correlationId: 'test',
    causationId: null,
  } as const
  const metered = (usedBytes: number) =>
    encode({ type: 'TrafficMetered', data: { bytes: 1, usedBytes } }, metadata, newEventId())
  let used = 0
  const append = async (events: number): Promise<void> => {
    // Revision 0 activated the plan.
    await log.append(
      stream,
      used,
      Array.from({ length: events }, (_, n) => metered(used + n + 1)),
    )
    used += events
  }
  for (let n = 0; n < 3; n += 1) await append(1_000)

  const { state } = await createStreamStates(log)(planRef(planId))
  const last = await log.readStreams([{ stream, from: used }])
  const [{ id: eventId = '' } = {}] = last.get(stream) ?? []
  await snapshots.save({
    stream,
    logId: await log.logId(),
    fold: planFold.name,
    version: planFold.version,
    revision: used,
    eventId,
    recordedAtMs: Date.parse(metadata.recordedAt),
    state: planFold.snapshot!.toText(state),
  })
  await append(5)
  read()
  assert.equal((await find(planId))?.usedBytes, 3_005)
  const { events } = read()
  assert.ok(events < 30, `${events}`)
})

test('while the log is down, states that were read are used for half a minute', async (t) => {
  const { open, find, turnLog, wait } = await directoryOf(t)
  const [known, unknown] = [await open('seen'), await open('unseen')]
  const plan = await find(known)
  turnLog('away')
  for (let n = 0; n < 28; n += 1) {
    wait(1_000)
    assert.deepEqual(await find(known), plan)
  }
  await assert.rejects(find(unknown), LogUnavailable)
  wait(40_000)
  await assert.rejects(find(known), LogUnavailable)
  turnLog('back')
  assert.deepEqual(await find(known), plan)
  assert.equal((await find(unknown))?.planId, unknown)
})
