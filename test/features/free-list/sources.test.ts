import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import Fastify from 'fastify'
import { pino } from 'pino'
import type { SocketAddress } from '../../../src/domain/free-list/endpoint.ts'
import { createFeeds } from '../../../src/features/free-list/fetch-sources.ts'
import { parseFeed } from '../../../src/features/free-list/parse-source.ts'
import {
  createSourceStore,
  parseSources,
  readSources,
  type Source,
  SourcesRefused,
} from '../../../src/features/free-list/sources.ts'
import { publicOutgoing, sandboxOutgoing } from '../../../src/platform/outgoing/send.ts'
import { feedRoutes } from '../../../src/sandbox/free-list/feeds.ts'
import { planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { atEnd } from '../../support/cleanup.ts'
import { testDatabase } from '../../support/postgres.ts'

const logger = pino({ level: 'silent' })
const minuteMs = 60_000
const sandboxRules = { sandbox: true, own: new Set<string>() }

/** A feed server of the sandbox, over proxies that need not run. */
const startFeedServer = async (t: TestContext) => {
  const app = Fastify()
  let requestCount = 0
  app.addHook('onRequest', async () => {
    requestCount += 1
  })
  feedRoutes(
    app,
    planProxies(20).map((planned, at) => ({ planned, port: 20_000 + at })),
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { readonly port: number }
  const baseUrl = `http://127.0.0.1:${port}`
  const outgoing = sandboxOutgoing(baseUrl)
  atEnd(t, async () => {
    await outgoing.close()
    await app.close()
  })
  return { baseUrl, send: outgoing.send, requestCount: () => requestCount }
}

const source = (id: string, from: Source['from'], format: Source['format'] = 'text'): Source => ({
  id,
  from,
  format,
  everyMinutes: 10,
})

test('a feed is read in the usual forms of proxy lists', () => {
  const text = [
    '203.0.113.1:80',
    'socks5://203.0.113.2:1080 # fast',
    'http://user:secret@203.0.113.3:3128/',
    '203.0.113.4 8080 US elite',
    '203.0.113.5,8080,anonymous',
    '203.0.113.6:8080:user:secret',
    '[2001:db8::7]:8080',
    '203.0.113.1:80',
    '# 203.0.113.8:80',
    '203.0.113.9',
    '203.0.113.10:99999',
    'example.com:80',
    '0x7f.1:80',
    '<html>',
  ].join('\r\n')
  const found = parseFeed(text, 'text')
  const named = [80, 1080, 3128, 8080, 8080, 8080].map((port, at) => ({ ip: `203.0.113.${at + 1}`, port }))
  assert.deepEqual(found, {
    candidates: [...named, { ip: '2001:db8::7', port: 8080 }],
    unreadable: 5,
    leftOut: 0,
  })
  const forms = [
    {
      count: 2,
      data: [
        { ip: '203.0.113.1', port: '80' },
        { host: '203.0.113.2', port: 1080 },
      ],
    },
    ['203.0.113.1:80', { proxy: 'socks4://203.0.113.2:1080' }],
    { proxies: [{ ipAddress: '203.0.113.1', port: 80 }, { address: '203.0.113.2', port: 1080 }, 7, null] },
  ]
  for (const form of forms)
    assert.deepEqual(parseFeed(JSON.stringify(form), 'json').candidates, named.slice(0, 2))
  assert.throws(() => parseFeed('{', 'json'), SyntaxError)
})

test('a feed may begin with a byte order mark, and be NDJSON, JSON keyed by protocol or quoted CSV', () => {
  const expected = [
    { ip: '203.0.113.1', port: 80 },
    { ip: '203.0.113.2', port: 1080 },
  ]
  const byProtocol = JSON.stringify({ http: ['203.0.113.1:80'], socks5: [{ ip: '203.0.113.2', port: 1080 }] })
  const lines = '{"ip":"203.0.113.1","port":80}\r\n\r\n{"ip":"203.0.113.2","port":"1080"}\r\n'
  const inside = '{"page":1,"data":{"http":["203.0.113.1:80"],"socks5":["203.0.113.2:1080"]}}'
  for (const json of [byProtocol, inside, lines, '"203.0.113.1:80"\n"203.0.113.2:1080"'])
    for (const mark of ['', '\ufeff'])
      assert.deepEqual(parseFeed(mark + json, 'json').candidates, expected, json)
  for (const text of [
    '203.0.113.1:80\n203.0.113.2:1080',
    '"ip","port"\r\n"203.0.113.1","80","US"\r\n"203.0.113.2","1080","US, elite"',
    '"203.0.113.1:80","http"\n"socks5://203.0.113.2:1080"',
    '"203.0.113.1";80\n"203.0.113.2";"1080"',
    '203.0.113.1:80\r203.0.113.2:1080\r',
    '"203.0.113.1","80","fast,\r\nelite"\r\n"203.0.113.2","1080","a ""b"""\r\n',
  ])
    assert.deepEqual(parseFeed(`\ufeff${text}`, 'text').candidates, expected, text)
  assert.throws(() => parseFeed('{"ip":"203.0.113.1","port":80}\n{', 'json'), SyntaxError)
})

test('an unreadable line of NDJSON is counted and skipped, if most lines are JSON', () => {
  const line = (at: number) => JSON.stringify({ ip: `203.0.113.${at}`, port: 80 })
  const candidates = [1, 2, 3].map((at) => ({ ip: `203.0.113.${at}`, port: 80 }))
  const found = (...lines: string[]) => parseFeed(lines.join('\n'), 'json')
  for (const bad of ['{"ip":"203.0.113.9","po', '<html>', '{"ip":"203.0.113.9"}', '7', 'null', '{}', '{}{}'])
    assert.deepEqual(found(line(1), bad, line(2), line(3)), { candidates, unreadable: 1, leftOut: 0 }, bad)
  assert.deepEqual(found('{', line(1), line(2), line(3), '{"ip":'), { candidates, unreadable: 2, leftOut: 0 })
  assert.throws(() => found('{', line(1), '}', line(2)), SyntaxError)
  const list = JSON.stringify(['203.0.113.1:80', '203.0.113.2:80', '203.0.113.3:80'], null, 1)
  assert.throws(() => parseFeed(list.slice(0, -2), 'json'), SyntaxError, 'a list that was cut off')
})

test('a feed cannot make the service scan the ports of one host', () => {
  const places: SocketAddress[] = Array.from({ length: 5_000 }, (_, at) => ({
    ip: '203.0.113.1',
    port: at + 1,
  }))
  const text = places.map(({ ip, port }) => `${ip}:${port}`).join('\n')
  assert.deepEqual(parseFeed(text, 'text').candidates, places.slice(0, 100))
  assert.equal(parseFeed(text, 'text').leftOut, 4_900)
})

test('a source file is refused with its error, and accepts only public https hosts and files', async (t) => {
  const wrong = (entry: object, expected: RegExp) =>
    assert.throws(
      () => parseSources(JSON.stringify({ sources: [{ id: 'one', ...entry }] })),
      (error) => {
        assert.ok(error instanceof SourcesRefused)
        assert.match(error.message, expected)
        return true
      },
    )
  for (const url of [
    'http://example.com/',
    'https://127.0.0.1/',
    'https://10.0.0.1/',
    'https://localhost/',
    'ftp://x.example/',
  ])
    wrong({ url }, /sources\.0\.url: an https address of a public host/)
  wrong({}, /either url or file/)
  wrong({ file: 'a', url: 'https://example.com/' }, /either url or file/)
  wrong({ file: 'a', format: 'xml' }, /one of text, json/)
  wrong({ file: 'a', every_minutes: 0 }, /every_minutes/)
  wrong({ id: 'sandbox-one', file: 'a' }, /does not begin with sandbox-/)
  wrong({ file: 'a', every: 5 }, /every/)
  const folder = await mkdtemp(join(tmpdir(), 'farebox-sources-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const path = join(folder, 'sources.json')
  await writeFile(
    path,
    JSON.stringify({
      sources: [
        { id: 'own', file: 'own.txt' },
        { id: 'web', url: 'https://example.com/list' },
      ],
    }),
  )
  assert.deepEqual(await readSources(path), [
    { id: 'own', from: { file: join(folder, 'own.txt') }, format: 'text', everyMinutes: 60 },
    { id: 'web', from: { url: 'https://example.com/list' }, format: 'text', everyMinutes: 60 },
  ])
  await writeFile(path, 'no JSON')
  await assert.rejects(readSources(path), /FAREBOX_FREELIST_SOURCES: .*: it is not JSON/)
  await assert.rejects(readSources(join(folder, 'absent.json')), /FAREBOX_FREELIST_SOURCES: .*ENOENT/)
})

test('feeds are read on their schedules, completely only after a change, and later after a failure', async (t) => {
  const { pool } = await testDatabase(t)
  const { baseUrl, send, requestCount } = await startFeedServer(t)
  const folder = await mkdtemp(join(tmpdir(), 'farebox-feeds-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const file = join(folder, 'own.txt')
  await writeFile(file, '127.80.9.1:80\n8.8.8.8:80\n127.0.0.1:5432\n')
  const outside = publicOutgoing()
  atEnd(t, outside.close)
  const sources = [
    { source: source('text', { url: `${baseUrl}/_sandbox/freelist/proxies.txt` }), send },
    { source: source('json', { url: `${baseUrl}/_sandbox/freelist/proxies.json` }, 'json'), send },
    { source: source('gone', { url: `${baseUrl}/_sandbox/freelist/absent` }), send },
    { source: source('own', { file }), send },
    // The sender also refuses what a configuration file cannot name.
    { source: source('private', { url: `${baseUrl}/_sandbox/freelist/proxies.txt` }), send: outside.send },
  ]
  const clock = { nowMs: 1_800_000_000_000 }
  const feeds = createFeeds({
    pool,
    sources: async () => sources,
    rules: sandboxRules,
    mostEndpoints: 1_000,
    clock: () => clock.nowMs,
    logger,
  })
  const states = async () => {
    const all = await createSourceStore(pool).read()
    return Object.fromEntries(
      [...all].map(([id, { outcome, candidates, refused, unreadable, added, problem }]) => [
        id,
        { outcome, candidates, refused, unreadable, added, problem },
      ]),
    )
  }
  await feeds.readDue()
  const whole = { outcome: 'read', candidates: 10, refused: 0, unreadable: 0, added: 10, problem: null }
  const failed = { ...whole, outcome: 'failed', candidates: 0, added: 0 }
  const first = {
    text: { ...whole, refused: 1, unreadable: 1 },
    json: whole,
    gone: { ...failed, problem: 'it answers with the status 404' },
    own: { ...whole, candidates: 1, refused: 2, added: 1 },
    private: { ...failed, problem: 'TargetRefused' },
  }
  assert.deepEqual(await states(), first)
  assert.equal(requestCount(), 3)
  await feeds.readDue()
  assert.equal(requestCount(), 3)
  clock.nowMs += 11 * minuteMs
  await feeds.readDue()
  assert.equal(requestCount(), 5, 'the one that failed waits for twice the time')
  assert.deepEqual(await states(), {
    ...first,
    text: { ...first.text, outcome: 'unchanged' },
    json: { ...first.json, outcome: 'unchanged' },
    own: { ...first.own, outcome: 'unchanged' },
  })
  const { rows } = await pool.query<{ count: number; untested: number }>(
    "select count(*) as count, count(*) filter (where state = 'untested') as untested from work.free_proxies",
  )
  assert.deepEqual(rows, [{ count: 21, untested: 21 }])
})

test('a full record accepts no more endpoints, and loses none', async (t) => {
  const { pool } = await testDatabase(t)
  const { baseUrl, send } = await startFeedServer(t)
  const feeds = createFeeds({
    pool,
    sources: async () => [
      { source: source('text', { url: `${baseUrl}/_sandbox/freelist/proxies.txt` }), send },
    ],
    rules: sandboxRules,
    mostEndpoints: 4,
    clock: () => 1_800_000_000_000,
    logger,
  })
  await feeds.readDue()
  const { rows } = await pool.query<{ count: number }>('select count(*) as count from work.free_proxies')
  assert.equal(rows[0]?.count, 4)
})
