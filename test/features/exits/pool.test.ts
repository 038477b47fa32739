import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { ExitVia } from '../../../src/domain/exits/events.ts'
import { parseUsername } from '../../../src/domain/exits/line.ts'
import { createExitHealth } from '../../../src/features/exits/exit-health.ts'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { type ImportedExit, parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins, createLiveExits } from '../../../src/features/exits/live-exits.ts'
import { releaseSessions } from '../../../src/features/exits/sticky-sessions.ts'
import type { ExitPool } from '../../../src/gateway/exits/exit-pool.ts'
import { type OpenedExits, openExits } from '../../../src/gateway/exits/open-exits.ts'
import type { Denied, Route } from '../../../src/gateway/gateway-ports.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { atEnd } from '../../support/cleanup.ts'
import { machineMs } from '../../support/machine-time.ts'
import { operator } from '../../support/operator.ts'
import { ownPort } from '../../support/own-port.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until as untilTrue } from '../../support/until.ts'
import { file, good } from './sample-file.ts'

const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' } as const

const settings = { FAREBOX_SANDBOX: 'off' }
const addressOf = { east: '198.18.1.1', west: '198.18.2.1' } as const
type Machine = keyof typeof addressOf
const login = { username: 'farebox', password: 'secret' }

/** Probes come each second at most: more looks than these would only cost time. */
const until: typeof untilTrue = (check, options) => untilTrue(check, { everyMs: 50, ...options })

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
  const app = await testApp(whole, { own: 'file', settings })
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
    await pool.query('truncate work.sticky_sessions, work.exit_health, work.gateway_machines')
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

// The first one: it lists all exits of the service.
test('the commands import, list, check, drain and remove exits; only the vault stores logins', async (t) => {
  const { env, core, cli } = await testApp(t, { own: 'file', settings })
  const { pool, log } = core
  const run = async (...args: readonly string[]) => {
    const { code, json } = await cli('exits', ...args)
    return { code, body: json }
  }
  const upstream = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1')
  t.after(() => upstream.close())
  await until(() => upstream.listening, { what: 'a listening upstream' })
  const { port } = upstream.address() as { port: number }
  const path = join(env.FAREBOX_DATA ?? '', 'exits.jsonl')
  const secret = 'Tr0ub4dor-and-3'
  const lines = [
    { ...good, kind: 'http', port, password: secret },
    { ...good, id: 'gone', kind: 'http', port: 1, username: undefined, password: undefined },
    { id: 'here', kind: 'direct', country: 'de', localAddress: '127.0.0.1' },
  ]
  await writeFile(path, file(...lines, '{"id":"x"}'))
  const refused = await run('import', path)
  assert.equal(refused.code, 2)
  assert.equal(refused.body.code, 'invalid_file')
  assert.match(JSON.stringify(refused.body.problems), /line 4/)
  await writeFile(path, file(...lines))
  assert.deepEqual((await run('import', path, '--dry-run')).body, { exits: 3 })
  assert.deepEqual((await run('list')).body, { exits: [] })
  assert.equal((await run('import', path)).body.added.length, 3)
  assert.equal((await run('import', path)).body.unchanged.length, 3)
  const stored = await pool.query('select credential_id from vault.exit_credentials')
  assert.equal(stored.rowCount, 1)
  await writeFile(path, file({ ...lines[0], password: 'other' }))
  assert.deepEqual((await run('import', path)).body.changed, ['us-dal-1'])
  assert.equal((await pool.query('select from vault.exit_credentials')).rowCount, 1)

  const checked = await run('check')
  assert.equal(checked.code, 1)
  assert.deepEqual(
    checked.body.exits.map(({ exitId, ok }: { exitId: string; ok: boolean }) => [exitId, ok]),
    [
      ['gone', false],
      ['here', true],
      ['us-dal-1', true],
    ],
  )
  assert.deepEqual((await run('drain', 'here')).body, { state: 'drained', changed: ['here'] })
  assert.deepEqual((await run('drain', 'here', '--undo')).body, { state: 'live', changed: ['here'] })
  assert.equal((await run('remove', 'gone', 'unknown')).body.code, 'not_found')
  assert.equal((await run('remove', 'gone')).code, 0)
  const listed = await run('list')
  assert.deepEqual(
    listed.body.exits.map(({ exitId }: { exitId: string }) => exitId),
    ['here', 'us-dal-1'],
  )
  assert.deepEqual((await run('list', '--country', 'de')).body.exits.length, 1)

  const events = (await log.readAll(0, 10_000)).filter(({ stream }) => stream === 'exits')
  assert.equal(events.length, 5)
  const said = JSON.stringify([events, listed.body])
  assert.ok(!said.includes(secret) && !said.includes('other'))
  assert.match(String(events[0]?.metadata), /operator/)
  await until(
    async () =>
      (await pool.query<{ state: string }>('select state from read.exits order by exit_id')).rows
        .map(({ state }) => state)
        .join() === 'removed,live,live',
    { what: 'the read model' },
  )
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
    // After c comes a or b, after those nearly always c: about 282, 159 and 159. With equal weights it would be 200 each.
    assert.ok(c > 1.25 * Math.max(a, b) && Math.abs(a - b) < 100, JSON.stringify([...seen]))
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

  await it('shares a session that began while Postgres was slow', async ({ import: add, open, app }) => {
    await add(...['a', 'b', 'c'].map((id) => direct(id, { country: 'us' })))
    const { exits } = await open()
    const name = '-country-us-session-slow'
    const { pool, clock } = app.core
    const slow = await pool.connect()
    await slow.query('begin')
    await slow.query('lock table work.sticky_sessions')
    const first = await exitOf(exits, name)
    await slow.query('rollback')
    slow.release()
    const released = async () => (await releaseSessions(pool, 'pln_one', ['slow'], clock())) === 1
    await until(released, { what: 'a session that can be released' })
    await until(async () => (await exitOf(exits, name)) !== first, { what: 'another exit' })
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

  await it('know, on each of two machines, the state of its own addresses only', async ({ app }, t) => {
    const { pool, runner, keys, clock, logger } = app.core
    const logins = createExitLogins({ pool, vault: createVault(keys.master) })
    const file = [
      { id: 'at-east', kind: 'direct', localAddress: addressOf.east, country: 'us' },
      { id: 'at-west', kind: 'direct', localAddress: addressOf.west, country: 'de' },
    ]
    const parsed = parseExits(file.map((line) => JSON.stringify(line)).join('\n'))
    assert.ok(parsed.ok)
    await createExitService({ runner, logins }).import(parsed.exits, cause)

    /** Addresses that a machine has, by its name; changed by the test. */
    const has: Record<Machine, Set<string>> = {
      east: new Set([addressOf.east]),
      west: new Set([addressOf.west]),
    }
    const openAt = async (machine: Machine) => {
      const opened = await openExits({
        scheduler: testScheduler({ pool }),
        pool,
        vault: createVault(keys.master),
        sandbox: false,
        allowLoopback: false,
        workers: 1,
        clock,
        random: Math.random,
        logger,
        machine,
        probe: async ({ via }: { readonly via: ExitVia }) => {
          const ok = via.kind === 'direct' && has[machine].has(via.localAddress ?? '')
          return { ok, latencyMs: 1, problem: ok ? null : 'EADDRNOTAVAIL' }
        },
      })
      atEnd(t, opened.stop)
      await until(() => opened.live.index().serving.length === 2, { what: 'both exits' })
      const reaches = async (country: string): Promise<boolean> => {
        const line = parseUsername(`u7k2m9x4-country-${country}`)
        assert.ok(line.ok)
        const found = await opened.exits.route({ holder: 'pln_one', line: line.line, udp: false })
        if (!found.denied) found.close()
        return !found.denied
      }
      return async () => `${await reaches('us')} ${await reaches('de')}`
    }
    const [east, west] = [await openAt('east'), await openAt('west')]
    await until(async () => (await east()) === 'true false', { what: "east's own address alone" })
    await until(async () => (await west()) === 'false true', { what: "west's own address alone" })

    // A process without a gateway lists what any machine can serve.
    const health = createExitHealth({
      table: { recordFailure: assert.fail },
      onError: (error) => assert.fail(String(error)),
    })
    const looking = createLiveExits({
      pool,
      logins,
      health,
      sticky: null,
      sandbox: false,
    })
    const listed = async (): Promise<string> => {
      await looking.refresh()
      return `${health.isAlive('at-east')} ${health.isAlive('at-west')}`
    }
    await until(async () => (await listed()) === 'true true', { what: 'an exit that lives somewhere' })
    has.east.clear()
    await until(async () => (await listed()) === 'false true', {
      timeoutMs: 10_000,
      what: 'the last machine to lose it',
    })
    assert.equal(await west(), 'false true')
    has.east.add(addressOf.east)
    await until(async () => (await listed()) === 'true true', { timeoutMs: 10_000, what: 'its return' })
    const { rowCount } = await pool.query('select from work.exit_health')
    assert.equal(rowCount, 0, 'no machine reported an address of its own to the others')
  })

  await it('get their logins at their own hosts only, whatever the read table contains', async ({
    app,
    open,
  }) => {
    const { pool, runner, keys } = app.core
    const vault = createVault(keys.master)
    const logins = createExitLogins({ pool, vault })
    const parsed = parseExits(
      ['one', 'two', 'old']
        .map((id) =>
          JSON.stringify({ id, kind: 'http', host: `${id}.example`, port: 8080, country: 'us', ...login }),
        )
        .join('\n'),
    )
    assert.ok(parsed.ok)
    const exits = createExitService({ runner, logins })
    await exits.import(parsed.exits, operator)
    const { rows } = await pool.query<{ id: string }>(
      `select credential_id as id from vault.exit_credentials where exit_id = 'old'`,
    )
    // As a release before 0.2.0 sealed it: it does not say where it signs in.
    await pool.query('update vault.exit_credentials set sealed = $2 where credential_id = $1', [
      rows[0]!.id,
      vault.seal(Buffer.from(JSON.stringify(login)), `exit login ${rows[0]!.id}`),
    ])
    assert.ok(await app.farebox.projecting.caughtUp(30_000))
    await pool.query(
      `update read.exits set terms = jsonb_set(terms, '{via,host}', '"thief.example"') where exit_id = 'one'`,
    )
    const opened = await open({ probe: async () => ({ ok: true, latencyMs: 1, problem: null }) })
    const serving = opened.live.index().serving
    assert.deepEqual(serving.map(({ exitId, login: found }) => [exitId, found]).toSorted(), [
      ['old', login],
      ['two', login],
    ])
    // The same file again changes nothing, and another host gets its own login.
    const same = await exits.import(parsed.exits, operator)
    assert.deepEqual([same.added, same.changed], [[], []])
    const moved = parseExits(
      JSON.stringify({ id: 'two', kind: 'http', host: 'new.example', port: 8080, country: 'us', ...login }),
    )
    assert.ok(moved.ok)
    assert.deepEqual((await exits.import(moved.exits, operator)).changed, ['two'])
    assert.ok(await app.farebox.projecting.caughtUp(30_000))
    await opened.live.refresh()
    const two = opened.live.index().serving.find(({ exitId }) => exitId === 'two')
    assert.deepEqual(
      [two?.terms.via.kind === 'http' && two.terms.via.host, two?.login],
      ['new.example', login],
    )
  })
})
