import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { whitelistRef } from '../../../src/domain/plans/whitelist.ts'
import { maxWhitelist, type NewEntry } from '../../../src/features/lines/whitelist.ts'
import {
  createIsAllowed,
  createWhitelistRemovals,
  type EntryRow,
  entryColumns,
  startWhitelistRemovals,
} from '../../../src/features/lines/whitelist-commitments.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { readStreamState } from '../../../src/platform/commands/command.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'
import { cause, serviceWorld } from '../accounts/world.ts'
import { whitelistOf } from './whitelist-world.ts'

const accountId = 'acc_one' as AccountId
const plan = { accountId, planId: 'pln_one' as PlanId }
const other = { accountId, planId: 'pln_two' as PlanId }
const entryOf = (cidr: string): NewEntry => ({ cidr, label: '', targeting: null })
const entry = entryOf('203.0.113.7/32')

class Crash extends Error {}

const crashWorld = async (t: TestContext) => {
  const world = await serviceWorld(t)
  const { pool, runner, log } = world
  /** A process that ends before it runs a command of this name. */
  const endsBefore = (name: string): CommandRunner => ({
    ...runner,
    run: (command) => (command.name === name ? Promise.reject(new Crash(name)) : runner.run(command)),
  })
  /** A process that ends before it writes a row. */
  const poolThatEnds = new Proxy(pool, {
    get: (target, name) => {
      if (name === 'connect') return () => Promise.reject(new Crash('connect'))
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  }) as pg.Pool
  const rows = async () =>
    (await pool.query<EntryRow>(`select ${entryColumns} from vault.whitelist order by network`)).rows
  const allowedRows = async (given: readonly EntryRow[]) => Promise.all(given.map(createIsAllowed(log)))
  const allowed = async () => (await readStreamState(log, whitelistRef(accountId))).state
  const restart = async (): Promise<void> => {
    const worker = startWhitelistRemovals({
      scheduler: testScheduler({ pool }),
      pool,
      removals: createWhitelistRemovals({ pool, runner }),
      clock: () => Date.now() + 60_000,
    })
    await until(async () => (await pool.query('select from work.whitelist_removals')).rowCount === 0, {
      what: 'the removals',
    })
    await worker.stop()
  }
  return { ...world, endsBefore, poolThatEnds, rows, allowedRows, allowed, restart }
}

test('a process that ends before it records a removal leaves no entry that admits an address', async (t) => {
  const world = await crashWorld(t)
  const { pool } = world
  const added = await whitelistOf(world).add(plan, [entry], false, cause)
  assert.ok(added.outcome === 'added')
  const before = await world.rows()
  const broken = whitelistOf({ pool, runner: world.endsBefore('remove-networks') })
  await assert.rejects(broken.remove(plan, added.entries[0]!.id, cause), Crash)
  assert.deepEqual(await world.rows(), [])
  await world.restart()
  assert.deepEqual(await world.allowedRows(before), [false], 'also when the row is put back')
  assert.equal((await world.allowed()).size, 0)
})

test('a process that ends before it records a moved entry leaves only the new plan', async (t) => {
  const world = await crashWorld(t)
  const { pool } = world
  assert.equal((await whitelistOf(world).add(plan, [entry], false, cause)).outcome, 'added')
  const before = await world.rows()
  const broken = whitelistOf({ pool, runner: world.endsBefore('remove-networks') })
  await assert.rejects(broken.add(other, [entry], true, cause), Crash)
  const now = await world.rows()
  assert.equal(now[0]?.plan_id, other.planId)
  assert.deepEqual(await world.allowedRows(now), [true])
  await world.restart()
  assert.deepEqual(await world.allowedRows([...before, ...now]), [false, true])
})

test('a process that ends between the event and the row leaves the entry unchanged', async (t) => {
  const world = await crashWorld(t)
  const { runner } = world
  const broken = whitelistOf({ pool: world.poolThatEnds, runner })
  await assert.rejects(broken.add(plan, [entry], false, cause), Crash)
  assert.deepEqual(await world.rows(), [])
  const whitelist = whitelistOf(world)
  assert.equal((await whitelist.add(plan, [entry], false, cause)).outcome, 'added', 'a retry adds it')
  await assert.rejects(broken.add(other, [entry], true, cause), Crash)
  const rows = await world.rows()
  assert.equal(rows[0]?.plan_id, plan.planId)
  assert.deepEqual(await world.allowedRows(rows), [true])
  assert.equal(await whitelist.remove(plan, rows[0]!.entry_id, cause), true)
  assert.deepEqual(await world.allowedRows(rows), [false])
})

test('an entry that is sent again unchanged adds no event', async (t) => {
  const world = await crashWorld(t)
  const whitelist = whitelistOf(world)
  const first = await whitelist.add(plan, [entry], false, cause)
  const head = await world.log.head()
  const again = await whitelist.add(plan, [{ ...entry, label: 'office' }], false, cause)
  assert.equal(await world.log.head(), head)
  assert.ok(first.outcome === 'added' && again.outcome === 'added')
  assert.deepEqual(again.entries, [{ ...first.entries[0]!, label: 'office' }])
})

test('simultaneous changes of one whitelist by several processes leave what the log allows, and never more', async (t) => {
  const world = await crashWorld(t)
  const processes = [whitelistOf(world), whitelistOf({ pool: world.pool, runner: world.elsewhere.runner })]
  const networks = Array.from({ length: 5 }, (_, at) => `203.0.113.${at + 1}/32`)
  const rival = { accountId: 'acc_two' as AccountId, planId: 'pln_three' as PlanId }
  const changes = processes.flatMap((whitelist, at) =>
    networks.flatMap((cidr) => [
      whitelist.add(plan, [entryOf(cidr)], true, cause),
      whitelist.add(other, [{ ...entryOf(cidr), label: `${at}` }], true, cause),
      whitelist.add(rival, [entryOf(cidr)], true, cause),
      world.rows().then(async (rows) => {
        const row = rows.find(({ network }) => network === cidr)
        if (row)
          await whitelist.remove({ accountId: row.account_id, planId: row.plan_id }, row.entry_id, cause)
      }),
    ]),
  )
  await Promise.all(changes)
  const rows = await world.rows()
  assert.ok(rows.length > 0)
  assert.deepEqual(
    await world.allowedRows(rows),
    rows.map(() => true),
  )
  const own = rows.filter(({ account_id }) => account_id === accountId)
  assert.equal((await world.allowed()).size, own.length, 'what ended is not allowed any more')

  const [whitelist] = processes as [(typeof processes)[0]]
  const many = Array.from({ length: maxWhitelist }, (_, at) => entryOf(`198.51.100.${at}/32`))
  const answers = await Promise.all(many.map((each) => whitelist.add(plan, [each], false, cause)))
  assert.equal(answers.filter(({ outcome }) => outcome === 'full').length, own.length)
  assert.equal((await world.allowed()).size, maxWhitelist)
})
