import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decideImport, decideState } from '../../../src/domain/exits/decide.ts'
import { exitsFold } from '../../../src/domain/exits/fold.ts'
import { createTemplate, templateProblem } from '../../../src/domain/exits/username-template.ts'
import { parseExits } from '../../../src/features/exits/import-exits.ts'
import { file, good } from './sample-file.ts'

const template = {
  id: 'pool',
  kind: 'template',
  protocol: 'http',
  host: 'gw.example',
  port: 7000,
  username: 'u-{country}',
  covers: [{ country: 'de' }],
}
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
