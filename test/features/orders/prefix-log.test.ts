import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import type pg from 'pg'
import { groups } from '../../../projections/groups.ts'
import { startCompletionReactor } from '../../../src/features/orders/complete-orders.ts'
import { startMovementReactor } from '../../../src/features/wallet/wallet-service.ts'
import {
  type AccountId,
  heldPlanId,
  type OrderId,
  orderIdOf,
  planIdOfOrder,
} from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { ledgerStream, orderStream, planStream, stockStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { idempotentAnswer } from '../../../src/platform/http/answer.ts'
import { openChosenLog } from '../../platform/eventstore/chosen-log.ts'
import { caughtUp, type Engine, silent, startEngine } from '../../platform/projections/engine.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog, type Stop, type StopAt } from '../../support/prefix-log.ts'
import { createShopProcess, type Item, mortal, type ShopProcess } from '../../support/prefix-process.ts'
import { testScheduler } from '../../support/scheduler.ts'

/** The ways in which a log can stop in the middle of an item; `conflict`: another process wrote to the stream first. */
const stops: Readonly<Record<string, Stop | 'conflict'>> = {
  'meets a conflict': 'conflict',
  'finds the log gone': { kind: 'unavailable' },
  'loses the answer of what was written': { kind: 'unknown', written: true },
  'loses the answer of what was not written': { kind: 'unknown', written: false },
  'dies before the write': { kind: 'crash', written: false },
  'dies after the write': { kind: 'crash', written: true },
}

const clock = Date.now
/** The reactors leave young orders to their handler. */
const laterClock = () => Date.now() + 600_000

/** One log and its read tables, for all cases: each has its own account and product. */
type World = { readonly log: EventLog; readonly pool: pg.Pool; readonly engine: Engine }

let count = 0

/** A case: its account, its product, and what other processes did to its streams. */
const createCase = (world: World) => {
  count += 1
  const accountId = `acc_case_${count}` as AccountId
  const productId = `product-${count}`
  let ips = 0
  const nextIps = (quantity: number): string[] =>
    Array.from({ length: quantity }, () => `10.${count >> 8}.${count & 255}.${++ips}`)
  return { world, accountId, productId, nextIps, other: createShopProcess(world.log, clock) }
}
type Case = ReturnType<typeof createCase>

const key = 'the-key'
const orderOf = ({ accountId }: Case, name = key): OrderId => orderIdOf(accountId, name)
const credited = 100_000

/** A flow: its preconditions, and the interrupted step, which can be repeated. */
type Flow = {
  readonly before?: (at: Case) => Promise<unknown>
  readonly step: (process: ShopProcess, at: Case) => Promise<unknown>
  readonly reactor: 'completes it' | 'is not called'
}

const ordering = (itemOf: (at: Case) => Item, before?: Flow['before']): Flow => ({
  ...(before && { before }),
  step: (process, at) => process.order(at.accountId, key, itemOf(at)),
  reactor: 'completes it',
})

const addresses = ({ productId }: Case, quantity = 3): Item => ({ kind: 'addresses', productId, quantity })
const plan = ({ productId }: Case): Item => ({ kind: 'plan', productId })

const bought =
  (itemOf: (at: Case) => Item): NonNullable<Flow['before']> =>
  (at) =>
    at.other.order(at.accountId, 'bought', itemOf(at))

const proxyIdsOf = async ({ world }: Case, orderId: OrderId) => {
  for await (const stored of world.log.readStream(orderStream(orderId), 0))
    return (decode(stored).data as { proxyIds: OrderDetailsProxyIds }).proxyIds
  throw new Error(`${orderId} is not fulfilled`)
}
type OrderDetailsProxyIds = Extract<Item, { kind: 'extension' }>['proxyIds']

const refunding = (
  itemOf: (at: Case) => Item,
  requestOf: (at: Case) => Promise<Parameters<ShopProcess['refund']>[2]>,
): Flow => ({
  before: bought(itemOf),
  step: async (process, at) => process.refund(orderOf(at, 'bought'), 'once', await requestOf(at)),
  reactor: 'completes it',
})

const flows: Readonly<Record<string, Flow>> = {
  'an order of addresses': ordering((at) => addresses(at)),
  'an order of a plan': ordering(plan),
  'a first order of a held plan': ordering(({ productId }) => ({ kind: 'held-plan', productId })),
  'a further order of a held plan': ordering(
    ({ productId }) => ({ kind: 'held-plan', productId }),
    bought(({ productId }) => ({ kind: 'held-plan', productId })),
  ),
  'a top-up': ordering(
    (at) => ({ kind: 'topup', productId: at.productId, planId: planIdOfOrder(orderOf(at, 'bought')) }),
    bought(plan),
  ),
  'an extension': {
    before: bought(addresses),
    step: async (process, at) => {
      const proxyIds = await proxyIdsOf(at, orderOf(at, 'bought'))
      return process.order(at.accountId, key, { kind: 'extension', productId: at.productId, proxyIds })
    },
    reactor: 'completes it',
  },
  'a whole refund of addresses': refunding(addresses, async () => ({ kind: 'whole' })),
  'a whole refund of addresses whose extension is given back': {
    ...refunding(addresses, async () => ({ kind: 'whole' })),
    before: async (at) => {
      await bought(addresses)(at)
      const proxyIds = await proxyIdsOf(at, orderOf(at, 'bought'))
      await at.other.order(at.accountId, key, { kind: 'extension', productId: at.productId, proxyIds })
      await at.other.refund(orderOf(at), 'once', { kind: 'whole' })
    },
  },
  'a refund of one address': refunding(addresses, async (at) => ({
    kind: 'proxies',
    proxyIds: (await proxyIdsOf(at, orderOf(at, 'bought'))).slice(0, 1),
  })),
  'a refund of an amount': refunding(addresses, async () => ({ kind: 'cents', cents: 123 })),
  'a whole refund of a plan': refunding(plan, async () => ({ kind: 'whole' })),
  'a credit by hand': {
    step: (process, { accountId }) => process.credit(accountId, 777, 'credit'),
    reactor: 'completes it',
  },
  'addresses put in stock': {
    step: (process, at) => {
      const numbered = [201, 202, 203].map((n) => at.nextIps(1)[0]!.replace(/\d+$/, String(n)))
      return process.stock(at.productId, numbered)
    },
    reactor: 'is not called',
  },
}

/** What others do meanwhile: it changes the stream and nothing that the flow is about. */
const intrude = async (at: Case, stream: StreamName, n: number): Promise<void> => {
  const { other, accountId, productId } = at
  if (stream.startsWith('ledger-')) await other.credit(accountId, 1, `meanwhile-${n}`)
  else if (stream.startsWith('stock-')) await other.stock(productId, at.nextIps(1))
  else if (stream.startsWith('plan-')) await other.meter(stream.slice('plan-'.length) as never)
}

const intrusions = new Set(['AddressesStocked', 'TrafficMetered'])

/** The facts of a case without what others did meanwhile, in stream order. */
const factsOf = async ({ world, accountId, productId }: Case) => {
  const held = heldPlanId(accountId, null, productId, 0)
  const orders = [key, 'bought'].map((name) => orderIdOf(accountId, name))
  const streams = [
    ledgerStream(accountId),
    stockStream(productId, 'USA'),
    planStream(held),
    ...orders.flatMap((id) => [orderStream(id), planStream(planIdOfOrder(id))]),
  ]
  const facts: string[][] = []
  for (const stream of streams) {
    const own: string[] = []
    for await (const stored of world.log.readStream(stream)) {
      const { type, data } = decode(stored) as { type: string; data: Record<string, never> }
      if (intrusions.has(type) || String(data.reference).startsWith('meanwhile')) continue
      const { amountMicros, amountCents, bytes, refundedCents, allocations, releases, extensions } = data
      const sizes = [allocations, releases, extensions].map((list?: { length: number }) => list?.length)
      own.push([type, amountMicros, amountCents, bytes, refundedCents, ...sizes].join(' '))
    }
    facts.push(own)
  }
  return facts
}

/** The read tables of a case. */
const tablesOf = async (at: Case) => {
  const { pool, engine, log } = at.world
  await caughtUp(engine, log, ['hot'])
  const values = [at.accountId]
  const orders = await pool.query(
    'select status, refunded_cents from read.orders where account_id = $1 order by 1, 2',
    values,
  )
  const proxies = await pool.query(
    'select ip, released_at is null as runs from read.proxies where account_id = $1',
    values,
  )
  const open = await pool.query(
    `select order_id from read.open_orders where order_id = any($1::text[])
      union all select movement_id from read.open_movements where movement ->> 'accountId' = $2`,
    [[orderOf(at), orderOf(at, 'bought')], at.accountId],
  )
  const running = proxies.rows.filter(({ runs }) => runs).map(({ ip }) => ip)
  assert.equal(new Set(running).size, running.length, 'an address is rented twice')
  return { orders: orders.rows, rentals: proxies.rows.length, running: running.length, open: open.rows }
}

const addressesInStock = async (at: Case): Promise<string[]> => {
  const ips: string[] = []
  for await (const stored of at.world.log.readStream(stockStream(at.productId, 'USA'))) {
    const { type, data } = decode(stored) as { type: string; data: { addresses: { ip: string }[] } }
    if (type === 'AddressesStocked') ips.push(...data.addresses.map(({ ip }) => ip))
  }
  return ips
}

const endOf = async (at: Case) => {
  const stocked = await addressesInStock(at)
  assert.equal(new Set(stocked).size, stocked.length, 'an address is stocked twice')
  const marked = stocked.filter((ip) => /\.20\d$/.test(ip)).length
  return { facts: await factsOf(at), tables: await tablesOf(at), marked }
}

const setTheScene = async (world: World, flow: Flow): Promise<Case> => {
  const at = createCase(world)
  await at.other.openAccount(at.accountId)
  await at.other.credit(at.accountId, credited, 'start')
  await at.other.stock(at.productId, at.nextIps(3))
  await flow.before?.(at)
  return at
}

/** One round of each reactor of a process that has just started. */
const runReactors = async ({ world }: Case): Promise<void> => {
  const { pool, log, engine } = world
  await caughtUp(engine, log, ['hot'])
  const process = createShopProcess(prefixLog(log), clock)
  const dependencies = {
    scheduler: testScheduler(),
    pool,
    clock: laterClock,
    logger: silent,
    intervalMs: 3_600_000 / 20,
  }
  const pollers = [
    startCompletionReactor({ ...dependencies, complete: process.complete }),
    startMovementReactor({ ...dependencies, wallets: process.wallets }),
  ]
  for (const poller of pollers) await poller.runNow()
  for (const poller of pollers) await poller.stop()
  await process.end()
}

/** Runs the flow's step in a process that is stopped at an append, and throws the process away. */
const runStopped = async (at: Case, flow: Flow, stopAt: StopAt): Promise<void> => {
  const { log, died } = mortal(prefixLog(at.world.log, stopAt))
  const process = createShopProcess(log, clock)
  const answered = flow.step(process, at).catch((error) => {
    assert.equal(error.name, 'CommandOverload', error.stack)
  })
  await Promise.race([answered, died])
  await process.end()
}

/** Stops once, at the n-th append; `appends` counts them. */
const stopOnce = (at: Case, n: number, stop: Stop | 'conflict') => {
  let appends = 0
  const stopAt: StopAt = async ({ append }) => {
    appends += 1
    if (appends - 1 !== n) return null
    if (stop !== 'conflict') return stop
    await intrude(at, append.stream, n)
    return null
  }
  return { stopAt, appends: () => appends }
}

describe('over a log that stops after some appends', () => {
  let world: World
  const cleanups: (() => unknown)[] = []
  before(async () => {
    // One database for all cases, gone with the last one.
    const t = { after: (step: () => unknown) => cleanups.push(step) } as unknown as TestContext
    const { url, pool } = await testDatabase(t)
    const log = await openChosenLog(t, url)
    cleanups.unshift(() => log.close())
    const engine = await startEngine(t, pool, log, groups)
    cleanups.unshift(() => engine.stop())
    world = { log, pool, engine }
  })
  after(async () => {
    for (const step of cleanups) await step()
  })

  for (const [name, flow] of Object.entries(flows))
    test(`${name} ends as without interruption, wherever and however it is stopped`, async () => {
      const whole = await setTheScene(world, flow)
      const uninterrupted = stopOnce(whole, -1, 'conflict')
      await runStopped(whole, flow, uninterrupted.stopAt)
      const appends = uninterrupted.appends()
      const end = await endOf(whole)
      assert.deepEqual(end.tables.open, [])
      assert.ok(appends > 1, 'the flow is over several streams')
      for (const [way, stop] of Object.entries(stops))
        for (let n = 0; n < appends; n += 1) {
          const where = `${name} that ${way} at append ${n} of ${appends}`
          const at = await setTheScene(world, flow)
          await runStopped(at, flow, stopOnce(at, n, stop).stopAt)
          if (flow.reactor === 'completes it') {
            await runReactors(at)
            const { open } = await tablesOf(at)
            assert.deepEqual(open, [], `${where}: the reactors leave nothing open`)
          }
          for (const retry of [1, 2]) {
            const process = createShopProcess(prefixLog(world.log), clock)
            await flow.step(process, at)
            await process.end()
            assert.deepEqual(await endOf(at), end, `${where}, repeated ${retry} times`)
          }
          const again = await setTheScene(world, flow)
          await runStopped(again, flow, stopOnce(again, n, stop).stopAt)
          const process = createShopProcess(prefixLog(world.log), clock)
          await flow.step(process, again)
          await process.end()
          await runReactors(again)
          assert.deepEqual(await endOf(again), end, `${where}, repeated before any reactor`)
        }
    })

  test('an order that loses the race for the last address is refunded and returned as that order, 201', async () => {
    const at = createCase(world)
    const rivals = `${at.accountId}_rival` as AccountId
    await at.other.openAccount(at.accountId)
    await at.other.openAccount(rivals)
    await at.other.credit(at.accountId, credited, 'start')
    await at.other.credit(rivals, credited, 'start')
    await at.other.stock(at.productId, at.nextIps(1))
    const rival = createShopProcess(prefixLog(world.log), clock)
    let raced = false
    const slow = createShopProcess(
      prefixLog(world.log, async ({ append }) => {
        if (raced || !append.stream.startsWith('stock-')) return null
        raced = true
        const { order } = await rival.order(rivals, key, addresses(at, 1))
        assert.equal(order.status, 'completed')
        return null
      }),
      clock,
    )
    const placed = await slow.order(at.accountId, key, addresses(at, 1))
    assert.ok(raced)
    assert.equal(placed.order.status, 'refunded')
    assert.equal(placed.order.refundedCents, 250)
    assert.equal(placed.order.failureReason, 'out_of_stock')
    assert.equal(idempotentAnswer(placed, {}).status, 201)
    const replayed = await rival.order(at.accountId, key, addresses(at, 1))
    assert.deepEqual(replayed.order, placed.order)
    assert.equal(idempotentAnswer(replayed, {}).status, 200)
    const { orders, running, open } = await tablesOf(at)
    assert.deepEqual([orders.length, running, open.length], [1, 0, 0])
    const wallet = await slow.wallets.read(at.accountId, {
      actor: { kind: 'system', name: 'test' },
      correlationId: '',
    })
    assert.equal(wallet.availableMicros, credited * 10_000)
    await slow.end()
    await rival.end()
  })

  test('a debit without its order, found by ten simultaneous requests in two processes, is answered with 201 once', async () => {
    const at = createCase(world)
    await at.other.openAccount(at.accountId)
    await at.other.credit(at.accountId, credited, 'start')
    await at.other.stock(at.productId, at.nextIps(3))
    const dying = createShopProcess(
      prefixLog(world.log, async ({ append }) =>
        append.stream.startsWith('stock-') ? { kind: 'unavailable' } : null,
      ),
      clock,
    )
    await assert.rejects(dying.order(at.accountId, key, addresses(at, 1)), /cannot be reached/)
    const processes = [createShopProcess(prefixLog(world.log), clock), at.other] as const
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => processes[n % 2]!.order(at.accountId, key, addresses(at, 1))),
    )
    const statuses = answers.map((placed) => idempotentAnswer(placed, {}).status)
    assert.deepEqual(statuses.sort(), [...Array(9).fill(200), 201])
    assert.deepEqual(new Set(answers.map(({ order }) => order.status)), new Set(['completed']))
    await dying.end()
    await processes[0].end()
  })

  test('a paid extension whose rentals are refunded meanwhile reports that they ended, and is refunded', async () => {
    const at = await setTheScene(world, { ...flows['an extension']!, reactor: 'is not called' })
    const proxyIds = await proxyIdsOf(at, orderOf(at, 'bought'))
    let raced = false
    const slow = createShopProcess(
      prefixLog(world.log, async ({ append }) => {
        if (raced || !append.stream.startsWith('stock-')) return null
        raced = true
        const refunded = await at.other.refund(orderOf(at, 'bought'), 'once', { kind: 'whole' })
        assert.equal(refunded?.kind, 'refunded')
        return null
      }),
      clock,
    )
    const item = { kind: 'extension', productId: at.productId, proxyIds } as const
    const { order } = await slow.order(at.accountId, key, item)
    assert.ok(raced)
    assert.deepEqual([order.status, order.failureReason], ['refunded', 'rental_ended'])
    const refusals: unknown[] = []
    for await (const stored of world.log.readStream(stockStream(at.productId, 'USA'))) {
      const { type, data } = decode(stored)
      if (type === 'AllocationRefused') refusals.push(data)
    }
    assert.deepEqual(refusals, [{ orderId: order.details.orderId, reason: 'rental_ended' }])
    const cause = { actor: { kind: 'system', name: 'test' }, correlationId: '' } as const
    const wallet = await slow.wallets.read(at.accountId, cause)
    assert.equal(wallet.availableMicros, credited * 10_000)
    assert.deepEqual((await tablesOf(at)).open, [])
    await slow.end()
  })
})
