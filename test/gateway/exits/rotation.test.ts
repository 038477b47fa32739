import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { type ImportedExit, parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins } from '../../../src/features/exits/live-exits.ts'
import { createStockLogins } from '../../../src/features/stock/stock-logins.ts'
import { createRentals, type Rental } from '../../../src/gateway/authenticate/rentals.ts'
import { type OpenedExits, openExits, rentalExit } from '../../../src/gateway/exits/open-exits.ts'
import type { Exit } from '../../../src/gateway/gateway-ports.ts'
import { createStreamStates } from '../../../src/platform/commands/log-states.ts'
import { createCredentials } from '../../../src/platform/vault/credentials.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const minuteMs = 60_000
const exitIds = ['att-1', 'att-2', 'att-3']
const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' } as const

describe('mobile rentals rotate over the exits of their carrier', () => {
  const ends: (() => unknown)[] = []
  let app: OwnApp
  let opened: OpenedExits

  before(async () => {
    const held = { after: (end: () => unknown) => void ends.push(end) } as TestContext
    app = await testApp(held, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
    const { pool, runner, keys, clock, logger } = app.core
    const vault = createVault(keys.master)
    const lines = [...exitIds, 'other'].map((id, at) =>
      JSON.stringify({
        id,
        kind: 'direct',
        localAddress: `127.0.0.${at + 2}`,
        family: 'mobile',
        country: 'us',
        carrier: id === 'other' ? 'verizon-us' : 'att-us',
      }),
    )
    const parsed = parseExits(lines.join('\n'))
    if (!parsed.ok) return assert.fail(JSON.stringify(parsed.problems))
    const exits = createExitService({ runner, logins: createExitLogins({ pool, vault }) })
    await exits.import(parsed.exits as readonly ImportedExit[], cause)
    const scheduler = testScheduler({ pool })
    const common = { scheduler, pool, vault, sandbox: false, allowLoopback: false, workers: 1, clock, logger }
    opened = await openExits({ ...common, random: Math.random })
    ends.unshift(opened.stop)
    await until(() => opened.exits.ofCarrier('att-us').length === 3, { what: 'the exits' })
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const rent = async (minutes: number) => {
    const meta = { carrier_id: 'att-us', service: 'dedicated', rotation_minutes: minutes }
    const { status, body } = await app.buyer.post('/api/v1/orders', {
      product_id: 'mobile-dedicated',
      quantity: 1,
      fulfillment_meta: { country: 'USA', period_days: 30, ...meta },
    })
    assert.equal(status, 201, JSON.stringify(body))
    return (await app.buyer.get(`/api/v1/proxies/${body.proxyIds[0]}`)).body
  }
  /** As a gateway without a cache reads it. */
  const rentalAt = async (ip: string): Promise<Rental> => {
    const { pool, log, keys, logger } = app.core
    const logins = createStockLogins({ pool, master: keys.master })
    const stateOf = createStreamStates(log)
    const states = { accountOf: stateOf, stockOf: stateOf }
    const rentals = createRentals({ pool, ...states, logins, monotonicMs: () => performance.now(), logger })
    const rental = await rentals.at(ip)
    return rental ?? assert.fail(`no account rents ${ip}`)
  }
  const own: Exit = {
    exitId: 'own',
    via: { kind: 'direct', localAddress: '198.18.0.1' },
    sandbox: false,
    udp: true,
  }
  const exitOf = async (ip: string): Promise<string> => {
    const { clock } = app.core
    return rentalExit(await rentalAt(ip), own, opened.exits.ofCarrier, clock()).exitId
  }
  /** As anything that has the link does, without a key. */
  const follow = async (url: string) => {
    const answer = await fetch(new URL(url, app.baseUrl))
    // biome-ignore lint/suspicious/noExplicitAny: the test names the fields that it reads
    const body = (await answer.json()) as any
    return { status: answer.status, headers: answer.headers, body }
  }

  test('by interval: another one each time, and the same one within it', async () => {
    const { ip, rotateUrl, rotation } = await rent(5)
    assert.deepEqual([rotation, rotateUrl], ['interval', null])
    const seen: string[] = []
    for (let n = 0; n < 3; n += 1) {
      seen.push(await exitOf(ip))
      app.wait(4 * minuteMs)
      assert.equal(await exitOf(ip), seen.at(-1))
      app.wait(minuteMs)
    }
    assert.deepEqual(seen.toSorted(), exitIds)
    assert.equal(await exitOf(ip), seen[0])
  })

  test('by link: another one for each use, at most once in ten seconds', async () => {
    const { proxyId, ip, rotateUrl, rotation } = await rent(0)
    assert.equal(rotation, 'by_link')
    assert.match(rotateUrl, /^http.*\/rotate\/[A-Za-z0-9]{32}$/)
    const seen = [await exitOf(ip)]
    for (let n = 0; n < 2; n += 1) {
      const { status, body } = await follow(rotateUrl)
      assert.deepEqual([status, body.proxyId], [200, proxyId])
      const soon = await follow(rotateUrl)
      assert.equal(soon.status, 429)
      assert.ok(Number(soon.headers.get('retry-after')) <= 10)
      seen.push(await exitOf(ip))
      app.wait(10_000)
    }
    assert.deepEqual(seen.toSorted(), exitIds)
  })

  test('an unknown link, one of another rental, and one of a rental that rotates by time have no effect', async () => {
    const [one, other, timed] = [await rent(0), await rent(0), await rent(10)]
    const token = other.rotateUrl.split('/').at(-1)
    for (const [id, ending] of [
      [one.proxyId, token],
      [one.proxyId, 'x'],
      ['prx_none', token],
      [timed.proxyId, createCredentials(app.core.keys.master).rotationToken(timed.proxyId)],
    ])
      assert.equal((await follow(`/api/v1/proxies/${id}/rotate/${ending}`)).status, 404)
    app.wait(31 * 1440 * minuteMs)
    assert.equal((await follow(one.rotateUrl)).body.code, 'rental_ended')
  })

  test('a carrier without live exits uses the address itself, and other products keep theirs', () => {
    const rotation = { carrierId: 'x', everyMs: null, sinceMs: 0, turns: 0 }
    for (const one of [rotation, null])
      assert.equal(
        rentalExit({ proxyId: 'prx_1' as Rental['proxyId'], rotation: one }, own, () => [], 0),
        own,
      )
  })
})
