import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import { parseUsername } from '../../../src/domain/exits/line.ts'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { type ImportedExit, parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins } from '../../../src/features/exits/live-exits.ts'
import { releaseSessions } from '../../../src/features/exits/sticky-sessions.ts'
import type { ExitPool } from '../../../src/gateway/exits/exit-pool.ts'
import { type OpenedExits, openExits } from '../../../src/gateway/exits/open-exits.ts'
import type { Denied, Route } from '../../../src/gateway/gateway-ports.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { machineMs } from '../../support/machine-time.ts'
import { ownPort } from '../../support/own-port.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' } as const

/** A listening endpoint that takes connections, to be closed and opened again. */
const listener = async (t: TestContext, at?: number): Promise<{ server: Server; port: number }> => {
  const port = at ?? (await ownPort())
  const server = createServer((socket) => socket.on('error', () => undefined).destroy())
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { server, port }
}

type Fresh = {
  readonly app: TestApp
  import(...lines: readonly object[]): Promise<void>
  state(id: string, to: 'live' | 'drained' | 'removed'): Promise<void>
  open(over?: Partial<Parameters<typeof openExits>[0]>): Promise<OpenedExits>
}

const world = async (whole: TestContext): Promise<{ fresh(t: TestContext): Promise<Fresh> }> => {
  const app = await testApp(whole, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
  const { core } = app
  const { pool, runner, keys, clock, logger } = core
  const vault = createVault(keys.master)
  const exits = createExitService({ runner, logins: createExitLogins({ pool, vault }) })
  const caughtUp = async (): Promise<void> => {
    const head = await core.log.head()
    await until(() => app.farebox.projecting.progress.position('hot') >= head, { what: 'the read model' })
  }
  /** Without the exits of the tests before. */
  const empty = async (): Promise<void> => {
    const ids = (await exits.read(cause)).map(({ terms }) => terms.exitId)
    if (ids.length > 0) await exits.setState(ids, 'removed', cause)
    await pool.query('truncate work.sticky_sessions, work.exit_health')
    await caughtUp()
  }
  const fresh = async (t: TestContext): Promise<Fresh> => ({
    app,
    import: async (...lines) => {
      const parsed = parseExits(lines.map((line) => JSON.stringify(line)).join('\n'))
      if (!parsed.ok) return assert.fail(JSON.stringify(parsed.problems))
      await exits.import(parsed.exits as readonly ImportedExit[], cause)
      await caughtUp()
    },
    state: async (id, to) => {
      await exits.setState([id], to, cause)
      await caughtUp()
    },
    open: async (over = {}) => {
      const opened = await openExits({
        scheduler: testScheduler({ pool }),
        pool,
        vault,
        sandbox: false,
        allowLoopback: false,
        workers: 1,
        clock,
        random: Math.random,
        logger,
        ...over,
      })
      t.after(opened.stop)
      return opened
    },
  })
  return {
    fresh: async (t) => {
      await empty()
      return fresh(t)
    },
  }
}

const lineOf = (rest: string) => {
  const parsed = parseUsername(`u7k2m9x4${rest}`)
  if (!parsed.ok) return assert.fail(parsed.problem.detail)
  return parsed.line
}
const ask = (pool: ExitPool, rest: string, over: object = {}): Promise<Route | Denied> =>
  pool.route({ holder: 'pln_one', line: lineOf(rest), udp: false, ...over })
const routed = async (pool: ExitPool, rest: string, over: object = {}): Promise<Route> => {
  const route = await ask(pool, rest, over)
  if (route.denied) return assert.fail(`${route.status} ${route.detail}`)
  route.close()
  return route
}
const exitOf = async (pool: ExitPool, rest: string): Promise<string> => (await routed(pool, rest)).exit.exitId
const statusOf = async (pool: ExitPool, rest: string, over: object = {}): Promise<number> => {
  const route = await ask(pool, rest, over)
  if (!route.denied) route.close()
  return route.denied ? route.status : 200
}

const direct = (id: string, over: Partial<Record<string, unknown>> & { country: string }) => ({
  id,
  kind: 'direct',
  ...over,
})

test('the pool of exits', async (whole) => {
  const shared = await world(whole)
  const it = (name: string, work: (one: Fresh, t: TestContext) => Promise<void>) =>
    whole.test(name, async (t) => work(await shared.fresh(t), t))

  await it('serves locations, falls back if strict is off, and follows drains and removals', async ({
    import: add,
    state,
    open,
  }) => {
    await add(
      direct('dal', { country: 'us', state: 'Texas', city: 'Dallas', isp: 'Comcast', asn: 7922, os: 'mac' }),
      direct('lax', {
        country: 'us',
        state: 'California',
        city: 'Los Angeles',
        asn: 20001,
        weight: 3,
        udp: true,
      }),
      direct('ber', { country: 'de', city: 'Berlin', family: 'mobile', carrier: 'tele-de' }),
    )
    const { exits, counts } = await open()
    assert.deepEqual(counts(), { serving: 3, dead: 0 })
    for (const [rest, wanted] of [
      ['-country-us-state-texas', 'dal'],
      ['-country-us-city-los_angeles', 'lax'],
      ['-country-us-isp-comcast', 'dal'],
      ['-asn-20001', 'lax'],
      ['-os-mac', 'dal'],
      ['-country-de', 'ber'],
      ['-country-us-not.state-texas', 'lax'],
      ['-country-us-not.city-los_angeles', 'dal'],
      ['-not.country-us', 'ber'],
      ['-not.asn-7922,20001', 'ber'],
      ['-country-us-udp-on', 'lax'],
    ] as const)
      assert.equal(await exitOf(exits, rest), wanted, rest)
    for (const [rest, status] of [
      ['-country-us-city-dalas', 403],
      ['-country-us-city-dalas-strict-off', 403],
      ['-country-de-isp-comcast', 403],
      ['-country-fr', 465],
      ['-country-fr-strict-off', 465],
      ['-country-us-isp-comcast-asn-20001', 465],
      ['-country-de-udp-on', 465],
    ] as const)
      assert.equal(await statusOf(exits, rest), status, rest)
    assert.equal(await statusOf(exits, '-country-de', { family: 'residential' }), 465)
    assert.equal(await statusOf(exits, '-country-de', { family: 'mobile' }), 200)
    const fallen = await routed(exits, '-country-us-isp-comcast-asn-20001-strict-off')
    assert.equal(fallen.fallback, true)
    assert.equal((await routed(exits, '-country-us-strict-off')).fallback, false)
    assert.equal(exits.find('dal')?.exitId, 'dal')
    assert.equal(exits.find('none'), null)
    assert.deepEqual(
      exits.ofCarrier('tele-de').map(({ exitId }) => exitId),
      ['ber'],
    )

    const pinned = await exitOf(exits, '-country-us-state-texas-session-a-lifetime-5')
    assert.equal(pinned, 'dal')
    await state('dal', 'drained')
    await until(async () => (await statusOf(exits, '-country-us-city-dallas')) === 465, { what: 'the drain' })
    assert.equal(await exitOf(exits, '-country-us-state-texas-session-a-lifetime-5'), 'dal', 'it goes on')
    await state('dal', 'removed')
    const session = '-country-us-state-texas-session-a'
    await until(async () => (await statusOf(exits, session)) === 568, { what: 'the removal' })
    assert.equal(
      await statusOf(exits, '-country-us-city-dallas'),
      465,
      'a place of former exits is no misspelt one',
    )
  })

  await it('chooses exits by weight, a different one for each connection, within their capacity', async ({
    import: add,
    open,
  }) => {
    await add(
      direct('a', { country: 'us', weight: 1 }),
      direct('b', { country: 'us', weight: 1 }),
      direct('c', { country: 'us', weight: 8 }),
      direct('d', { country: 'de', capacity: 2 }),
    )
    const { exits } = await open()
    const seen = new Map<string, number>()
    let before = ''
    for (let n = 0; n < 600; n += 1) {
      const id = await exitOf(exits, '-country-us')
      assert.notEqual(id, before)
      before = id
      seen.set(id, (seen.get(id) ?? 0) + 1)
    }
    const [a = 0, b = 0, c = 0] = ['a', 'b', 'c'].map((id) => seen.get(id))
    // After c comes a or b, after those nearly always c.
    assert.ok(c > 1.5 * Math.max(a, b) && Math.abs(a - b) < 100, JSON.stringify([...seen]))
    const first = await ask(exits, '-country-de')
    const second = await ask(exits, '-country-de')
    assert.ok(!first.denied && !second.denied)
    const third = await ask(exits, '-country-de')
    assert.ok(third.denied)
    assert.deepEqual([third.status, third.retryAfterSeconds], [503, 1])
    first.close()
    first.close()
    assert.equal(await statusOf(exits, '-country-de'), 200)
    second.close()
  })

  await it('keeps a session on its exit in all processes and after restarts, from its first use to its end', async ({
    import: add,
    open,
  }) => {
    await add(...['a', 'b', 'c', 'd', 'e', 'f'].map((id) => direct(id, { country: 'us' })))
    let nowMs = Date.now()
    const clock = () => nowMs
    const [one, two] = [await open({ clock }), await open({ clock })]
    const name = (n: number) => `-country-us-session-s${n}-lifetime-10`
    const all = Array.from({ length: 40 }, (_, n) => n)
    const pins = await Promise.all(all.map((n) => exitOf((n % 2 ? one : two).exits, name(n))))
    assert.ok(new Set(pins).size > 3, 'sessions are spread')
    await add(...['g', 'h', 'i'].map((id) => direct(id, { country: 'us' })))
    await until(() => one.counts().serving === 9 && two.counts().serving === 9, { what: 'the new exits' })
    nowMs += 4 * 60_000
    for (const n of all) assert.equal(await exitOf((n % 2 ? two : one).exits, name(n)), pins[n])
    const later = await open({ clock })
    for (const n of all) assert.equal(await exitOf(later.exits, name(n)), pins[n])
    assert.equal((await routed(later.exits, name(0))).stickyMinutesLeft, 6, 'absolute, from the first use')
    nowMs += 6 * 60_000 + 1
    const moved = await Promise.all(all.map((n) => exitOf((n % 2 ? one : later).exits, name(n))))
    assert.ok(
      moved.every((id, n) => id !== pins[n]),
      'each moves on',
    )
    for (const n of all) assert.equal(await exitOf(two.exits, name(n)), moved[n])
    // Another targeting is another session; a first use by several processes at once ends with one exit.
    const raced = await Promise.all([one, two, later].map(({ exits }) => exitOf(exits, '-session-raced')))
    assert.equal(new Set(raced).size, 1)
  })

  await it('answers 568 after the exit of a session failed three times, until the session is released', async ({
    import: add,
    open,
    app,
  }) => {
    await add(...['a', 'b', 'c'].map((id) => direct(id, { country: 'us' })))
    const [one, two] = [await open(), await open()]
    const name = '-country-us-session-cart'
    const first = await exitOf(one.exits, name)
    const nameBefore = (await routed(one.exits, name)).sessionName
    assert.equal((await routed(two.exits, name)).sessionName, nameBefore)
    await exitOf(two.exits, name)
    for (let n = 0; n < 3; n += 1) {
      const route = await routed(one.exits, name)
      if (n === 0) {
        // A success in between restarts the count.
        route.done('failed', 1)
        ;(await routed(one.exits, name)).done('connected', 1)
        ;(await routed(one.exits, name)).done('failed', 1)
      } else route.done('failed', 1)
    }
    assert.equal(await statusOf(one.exits, name), 568)
    await until(async () => (await statusOf(two.exits, name)) === 568, { what: 'the other process' })
    assert.equal(await statusOf(one.exits, '-country-us-session-other'), 200, 'another id works at once')
    const { pool, clock } = app.core
    assert.equal(await releaseSessions(pool, 'pln_two', ['cart'], clock()), 0, 'only of its plan')
    assert.equal(await releaseSessions(pool, 'pln_one', ['cart'], clock()), 1)
    for (const { exits } of [one, two]) {
      await until(async () => (await statusOf(exits, name)) === 200, { what: 'the release' })
      assert.notEqual((await routed(exits, name)).sessionName, nameBefore)
      assert.notEqual(await exitOf(exits, name), first)
    }
    assert.equal(await exitOf(one.exits, name), await exitOf(two.exits, name))
  })

  await it('removes an exit that does not answer within ten seconds, and probes reactivate it', async ({
    import: add,
    open,
  }, t) => {
    const upstream = await listener(t)
    await add(
      { id: 'up', kind: 'http', host: '127.0.0.1', port: upstream.port, country: 'us' },
      { id: 'off', kind: 'socks5', host: '127.0.0.1', port: 1, country: 'de' },
      direct('here', { country: 'jp' }),
    )
    const [one, two] = [await open(), await open()]
    await until(async () => (await statusOf(two.exits, '-country-de')) === 465, { what: 'the dead exit' })
    assert.equal(await statusOf(one.exits, '-country-us'), 200)
    const startMs = machineMs()
    upstream.server.close()
    for (const { exits } of [one, two])
      await until(async () => (await statusOf(exits, '-country-us')) === 465, {
        timeoutMs: 10_000,
        what: 'its end',
      })
    assert.ok(machineMs() - startMs < 10_000)
    await listener(t, upstream.port)
    for (const { exits } of [one, two])
      await until(async () => (await statusOf(exits, '-country-us')) === 200, {
        timeoutMs: 15_000,
        what: 'its return',
      })
    // Three connections in a row that fail end it at once here, and soon everywhere.
    for (let n = 0; n < 3; n += 1) (await routed(one.exits, '-country-us')).done('failed', 1)
    assert.equal(await statusOf(one.exits, '-country-us'), 465)
    await until(async () => (await statusOf(two.exits, '-country-us')) === 465, { what: 'the other process' })
    await until(async () => (await statusOf(one.exits, '-country-us')) === 200, {
      timeoutMs: 20_000,
      what: 'a probe after its rest',
    })
  })

  await it('fills the templates of a supplier, with a new session for each round', async ({
    import: add,
    open,
    app,
  }, t) => {
    const upstream = await listener(t)
    await add({
      id: 'pool',
      kind: 'template',
      protocol: 'http',
      host: '127.0.0.1',
      port: upstream.port,
      username: 'acme-cc-{COUNTRY}[-city-{city}][-asn-{asn}][-sid-{session}-ttl-{lifetime}]',
      password: 'pw-{country}',
      covers: [
        { country: 'us', cities: [{ name: 'Dallas', state: 'Texas' }], states: ['Texas'] },
        { country: 'de' },
      ],
    })
    const { exits } = await open()
    const viaOf = async (rest: string) => {
      const { via } = (await routed(exits, rest)).exit
      assert.ok(via.kind === 'http')
      return [via.username, via.password]
    }
    assert.deepEqual(await viaOf('-country-us-city-dallas'), ['acme-cc-US-city-dallas', 'pw-us'])
    assert.deepEqual(await viaOf('-country-de'), ['acme-cc-DE', 'pw-de'])
    const [sticky] = await viaOf('-country-us-session-cart-lifetime-30')
    assert.match(sticky ?? '', /^acme-cc-US-sid-[0-9a-f]{16}-ttl-30$/)
    assert.deepEqual((await viaOf('-country-us-session-cart-lifetime-30'))[0], sticky)
    assert.equal(await statusOf(exits, '-country-us-not.state-california'), 465, 'it may go out anywhere')
    assert.equal(await statusOf(exits, '-country-us-state-texas-not.state-california'), 200)
    assert.equal(await statusOf(exits, '-country-us-city-dallas-not.state-texas'), 465)
    const { pool, clock } = app.core
    await releaseSessions(pool, 'pln_one', null, clock())
    await until(async () => (await viaOf('-country-us-session-cart-lifetime-30'))[0] !== sticky, {
      what: 'another session',
    })
  })
})
