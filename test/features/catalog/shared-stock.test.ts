import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import type { StockCount } from '../../../src/domain/catalog/availability.ts'
import { createSharedStock } from '../../../src/features/catalog/views.ts'

/** A source whose reads the test ends one by one, with a version and clocks that it moves. */
const world = () => {
  const looks: PromiseWithResolvers<void>[] = []
  const at = { available: 5, version: 1, nowMs: 0, clockMs: 1_790_000_000_000 }
  const stock = createSharedStock({
    source: {
      all: async () => {
        const available = at.available
        const look = Promise.withResolvers<void>()
        looks.push(look)
        await look.promise
        const count: StockCount = { country: 'USA', carrierId: null, service: null, available }
        return new Map([['isp-static', [count]]])
      },
    },
    watch: { version: () => at.version, onChange: () => () => undefined },
    clock: () => at.clockMs,
    monotonicMs: () => at.nowMs,
    logger: pino({ level: 'silent' }),
  })
  const available = async () => (await stock.of('isp-static'))[0]?.available
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  /** Ends the running read; fails if there is none. */
  const finish = async (n: number) => {
    await turn()
    assert.ok(looks[n], `look ${n} did not begin`)
    looks[n].resolve()
    await turn()
  }
  return { at, looks, stock, available, turn, finish }
}

test('callers share a stock read that has not begun; a later caller gets the next read', async () => {
  const { at, looks, available, turn, finish } = world()
  const early = [available(), available()]
  await turn()
  at.available = 4
  const late = [available(), available()]
  await finish(0)
  assert.deepEqual(await Promise.all(early), [5, 5])
  await finish(1)
  assert.deepEqual(await Promise.all(late), [4, 4])
  assert.equal(looks.length, 2)
})

test('a stock read is valid until the read models advance or it is too old', async () => {
  const { at, looks, available, finish } = world()
  const first = available()
  await finish(0)
  assert.equal(await first, 5)
  at.available = 3
  at.nowMs = 99
  assert.equal(await available(), 5)
  at.version = 2
  const moved = available()
  await finish(1)
  assert.equal(await moved, 3)
  at.available = 2
  at.nowMs = 99 + 100
  const old = available()
  await finish(2)
  assert.equal(await old, 2)
  assert.equal(looks.length, 3)
})

test('a stock read is invalid after a clock jump, because resting addresses depend on the clock', async () => {
  const { at, available, finish } = world()
  const first = available()
  await finish(0)
  assert.equal(await first, 5)
  at.available = 6
  at.clockMs -= 60_000
  assert.equal(await available(), 5)
  at.clockMs += 17 * 60_000
  const later = available()
  await finish(1)
  assert.equal(await later, 6)
})

test('a stock read that began before the read models advanced is invalid afterwards', async () => {
  const { at, available, turn, finish } = world()
  const before = available()
  await turn()
  at.version = 2
  at.available = 1
  await finish(0)
  assert.equal(await before, 5)
  const after = available()
  await finish(1)
  assert.equal(await after, 1)
})

test('a failed stock read fails its callers, and the next one is tried', async () => {
  const { looks, available, turn, finish } = world()
  const waiting = available()
  await turn()
  looks[0]!.reject(new Error('no database'))
  await assert.rejects(waiting, /no database/)
  const again = available()
  await finish(1)
  assert.equal(await again, 5)
})

test('a product without stock has no counts', async () => {
  const { stock, finish } = world()
  const counts = stock.of('ipv4-datacenter')
  await finish(0)
  assert.deepEqual(await counts, [])
})
