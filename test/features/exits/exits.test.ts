import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decideImport, decideState } from '../../../src/domain/exits/decide.ts'
import { exitsFold } from '../../../src/domain/exits/fold.ts'
import { createTemplate, templateProblem } from '../../../src/domain/exits/username-template.ts'
import { parseExits } from '../../../src/features/exits/import-exits.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const good = {
  id: 'us-dal-1',
  kind: 'socks5',
  host: '127.0.0.1',
  port: 1080,
  username: 'u',
  password: 'p',
  country: 'USA',
  state: 'Texas',
  city: 'São Paulo',
  isp: 'Comcast Cable',
  asn: 7922,
}
const template = {
  id: 'pool',
  kind: 'template',
  protocol: 'http',
  host: 'gw.example',
  port: 7000,
  username: 'u-{country}',
  covers: [{ country: 'de' }],
}
const file = (...lines: readonly (object | string)[]): string =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')

describe('a file of exits', () => {
  test('is read line by line, with locations spelt as in usernames', () => {
    const parsed = parseExits(file('# mine', good, '', template))
    assert.ok(parsed.ok)
    const [exit, pool] = parsed.exits
    assert.deepEqual(exit?.login, { username: 'u', password: 'p' })
    assert.deepEqual(exit?.terms.covers, [
      {
        country: 'us',
        states: [{ code: 'texas', name: 'Texas' }],
        cities: [{ code: 'sao_paulo', name: 'São Paulo', state: 'texas' }],
        isps: [{ code: 'comcast_cable', name: 'Comcast Cable', asns: [7922] }],
        asns: [7922],
        systems: [],
      },
    ])
    assert.equal(pool?.terms.family, 'residential')
  })

  for (const [what, line, path] of [
    ['no JSON', '{"id":', 'line 2'],
    ['no kind', { id: 'a', country: 'us' }, 'line 2.kind'],
    ['an unknown kind', { ...good, kind: 'ftp' }, 'line 2.kind'],
    ['an unknown field', { ...good, colour: 'red' }, 'line 2'],
    ['no id', { ...good, id: undefined }, 'line 2.id'],
    ['an id in capitals', { ...good, id: 'US' }, 'line 2.id'],
    ['an id of the sandbox', { ...good, id: 'sandbox-us-1' }, 'line 2.id'],
    ['a country that is none', { ...good, country: 'zz' }, 'line 2.country'],
    ['a city without letters', { ...good, city: '東京' }, 'line 2.city'],
    ['an AS number that is none', { ...good, asn: 0 }, 'line 2.asn'],
    ['an unknown system', { ...good, os: 'linux' }, 'line 2.os'],
    ['a port that is none', { ...good, port: 70_000 }, 'line 2.port'],
    ['a host that is none', { ...good, host: 'a b' }, 'line 2.host'],
    ['a weight of nothing', { ...good, weight: 0 }, 'line 2.weight'],
    ['half a connection', { ...good, capacity: 0.5 }, 'line 2.capacity'],
    ['an unknown family', { ...good, family: 'tor' }, 'line 2.family'],
    [
      'a local address that is none',
      { id: 'a', kind: 'direct', country: 'us', localAddress: 'x' },
      'line 2.localAddress',
    ],
    ['an IPv4 prefix', { id: 'a', kind: 'prefix', country: 'us', prefix: '10.0.0.0/8' }, 'line 2.prefix'],
    ['an unknown placeholder', { ...template, username: 'u-{zip}' }, 'line 2.username'],
    ['an open part', { ...template, username: 'u[-{city}' }, 'line 2.username'],
    ['a template without countries', { ...template, covers: [] }, 'line 2.covers'],
    ['an id twice', { ...good, id: 'first' }, 'line 2.id'],
  ] as const)
    test(`is refused completely because of ${what}, by its line`, () => {
      const parsed = parseExits(file({ ...good, id: 'first' }, line))
      assert.ok(!parsed.ok, 'it was taken')
      assert.equal(parsed.problems[0]?.path, path)
      assert.ok((parsed.problems[0]?.expected ?? '').length > 3)
      assert.doesNotMatch(JSON.stringify(parsed.problems), /zip/, 'a secret is not shown')
    })

  test('is refused without exits', () => {
    assert.ok(!parseExits('# nothing\n').ok)
  })
})

describe('a connection template', () => {
  test('omits parts whose placeholders have no value', () => {
    const { fill } = createTemplate('u-cc-{country}[-city-{city}][-sid-{session}-ttl-{lifetime}]')
    assert.equal(fill({ country: 'us' }), 'u-cc-us')
    assert.equal(fill({ country: 'us', city: 'dallas', session: 'a' }), 'u-cc-us-city-dallas')
    assert.equal(fill({ country: 'us', session: 'a', lifetime: '5' }), 'u-cc-us-sid-a-ttl-5')
  })
  test('is refused if brackets or placeholders are wrong', () => {
    for (const wrong of ['a]', '[a', '[[a]]', '{a}', '{', 'a}', '{}'])
      assert.ok(templateProblem(wrong), wrong)
  })
})

describe('exits in the log', () => {
  const terms = (over: object) => {
    const parsed = parseExits(file({ ...good, ...over }))
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    return { ...parsed.exits[0]!.terms, credentialId: null }
  }
  const evolve = (state: typeof exitsFold.initial, events: readonly unknown[]) =>
    (events as Parameters<typeof exitsFold.evolve>[1][]).reduce(exitsFold.evolve, state)

  test('are appended when they are new or changed, and a removed one that returns is live', () => {
    let state = exitsFold.initial
    const run = (decision: { events: readonly unknown[] }) => {
      state = evolve(state, decision.events)
      return decision.events.length
    }
    assert.equal(run(decideImport(state, [terms({}), terms({ id: 'b' })])), 1)
    assert.equal(run(decideImport(state, [terms({}), terms({ id: 'b' })])), 0)
    assert.deepEqual(decideImport(state, [terms({ weight: 2 })]).answer.changed, ['us-dal-1'])
    assert.equal(run(decideState(state, ['b'], 'drained')), 1)
    run(decideImport(state, [terms({ id: 'b', weight: 3 })]))
    assert.equal(state.get('b')?.state, 'drained')
    run(decideState(state, ['b'], 'removed'))
    assert.deepEqual(decideState(state, ['b', 'c', 'us-dal-1'], 'removed').answer, {
      status: 'refused',
      unknown: ['b', 'c'],
    })
    run(decideImport(state, [terms({ id: 'b', weight: 3 })]))
    assert.equal(state.get('b')?.state, 'live')
    assert.deepEqual(exitsFold.snapshot?.fromText(exitsFold.snapshot.toText(state)).toJS(), state.toJS())
  })
})

test('the commands import, list, check, drain and remove exits; only the vault stores logins', async (t) => {
  const { env, core, cli } = await testApp(t, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
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
