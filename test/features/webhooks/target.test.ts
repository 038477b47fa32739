import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSender } from '../../../src/features/webhooks/webhook-sender.ts'
import { checkTarget, isAllowedAddress, TargetRefused } from '../../../src/platform/outgoing/target.ts'
import { privateListener } from '../../support/private-listener.ts'
import { testApp } from '../../support/test-app.ts'
import { path } from './deliveries.ts'

const strict = { allowLoopback: false }
const request = { body: Buffer.from('{}'), headers: { 'content-type': 'application/json' } }

/** Every way to write a loopback or unspecified address in a URL. */
const literals = [
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '127.0.1',
  '2130706433',
  '017700000001',
  '0177.0.0.1',
  '0x7f.1',
  '0x7f000001',
  '0X7F.0x0.0x0.0x1',
  '%31%32%37.0.0.1',
  '１２７.０.０.１',
  '127。0。0。1',
  '127.255.255.254',
  '0',
  '0.0.0.0',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
  '[::127.0.0.1]',
  '[::7f00:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
]

const names = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  'db',
  'db.internal',
  'printer.local',
  'x.home.arpa',
]

const neverResolves = async (): Promise<string[]> => assert.fail('a literal is not resolved')

test('no form of a private address gets a TCP connection, over http or https', async (t) => {
  const listener = await privateListener(t)
  const sender = createSender({ resolve: neverResolves, rules: strict, timeoutMs: 2_000 })
  t.after(() => sender.close())
  for (const literal of literals)
    for (const scheme of ['https', 'http']) {
      const url = `${scheme}://${literal}:${listener.port}/hook`
      const { status, error } = await sender.send(url, request)
      assert.equal(status, null, url)
      assert.match(error ?? '', /^refused: /, url)
      await assert.rejects(checkTarget(url, { resolve: neverResolves, rules: strict }), TargetRefused, url)
    }
  assert.equal(listener.connections(), 0)

  // The listener does listen: the same sender, allowed to, reaches it.
  const free = createSender({ resolve: neverResolves, rules: { allowLoopback: true }, timeoutMs: 2_000 })
  t.after(() => free.close())
  await free.send(`http://127.0.0.1:${listener.port}/hook`, request)
  assert.equal(listener.connections(), 1)
})

test('a name that resolves to a private address is refused when it is dialled, whatever it resolved to before', async (t) => {
  const listener = await privateListener(t)
  const answers: (readonly string[])[] = [['93.184.215.14'], ['127.0.0.1']]
  let lookups = 0
  const changing = async () => answers[Math.min(lookups++, answers.length - 1)]!
  const url = `https://rebind.example.com:${listener.port}/hook`
  await checkTarget(url, { resolve: changing, rules: strict })
  const sender = createSender({ resolve: changing, rules: strict, timeoutMs: 2_000 })
  t.after(() => sender.close())
  const { status, error } = await sender.send(url, request)
  assert.deepEqual([status, lookups], [null, 2])
  assert.match(error ?? '', /^refused: /)

  for (const mixed of [
    ['93.184.215.14', '127.0.0.1'],
    ['::1', '93.184.215.14'],
    ['2606:2800:21f:cb07:6820:80da:af6b:8b2c', '::ffff:127.0.0.1'],
    ['fe80::1%lo', '93.184.215.14'],
    ['not an address'],
  ]) {
    const mixing = createSender({ resolve: async () => mixed, rules: strict, timeoutMs: 2_000 })
    t.after(() => mixing.close())
    const answer = await mixing.send(url, request)
    assert.match(answer.error ?? '', /^refused: /, mixed.join())
  }
  assert.equal(listener.connections(), 0)
})

test('a registration does not wait for a hanging name server: its name is resolved when it is dialled', async () => {
  const url = 'https://slow.example.com/hook'
  const silent = Promise.withResolvers<string[]>()
  assert.equal((await checkTarget(url, { resolve: () => silent.promise, rules: strict })).href, url)
  // Data after everything changes nothing, and is not an error.
  silent.resolve(['127.0.0.1'])
  await assert.rejects(checkTarget(url, { resolve: () => silent.promise, rules: strict }), TargetRefused)
})

test('the name is resolved once per connection, so that the checked address is the dialled one', async (t) => {
  const listener = await privateListener(t)
  let lookups = 0
  const sender = createSender({
    resolve: async () => {
      lookups += 1
      return ['127.0.0.1']
    },
    rules: { allowLoopback: true },
    timeoutMs: 2_000,
  })
  t.after(() => sender.close())
  await sender.send(`http://hooks.example.com:${listener.port}/`, request)
  assert.deepEqual([lookups, listener.connections()], [1, 1])
})

test('one rule covers every range that is not public', () => {
  const refused = [
    ...[
      '10.0.0.1',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.0.1',
      '100.64.0.1',
      '169.254.169.254',
      '192.0.0.8',
    ],
    ...['192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '192.88.99.1', '224.0.0.1', '240.0.0.1'],
    ...[
      '255.255.255.255',
      '0.0.0.0',
      'fc00::1',
      'fd00:ec2::254',
      'fe80::1',
      'fec0::1',
      'ff02::1',
      '::',
      '::1',
    ],
    ...[
      '2001:db8::1',
      '2001::1',
      '2002:a00:1::',
      '64:ff9b::a00:1',
      '100::1',
      '5f00::1',
      '3fff::1',
      '::a00:1',
    ],
    ...['168.63.129.16', '::ffff:168.63.129.16', '192.80.8.124', '161.26.0.10', '166.9.48.1'],
    ...[
      '169.254.169.254',
      '169.254.170.2',
      '100.100.100.200',
      '192.0.0.192',
      'fd20:ce::254',
      'fd00:c1::a9fe:a9fe',
    ],
    ...[
      '64:ff9b::a9fe:a9fe',
      '64:ff9b:1::a00:1',
      '2002:a83f:8110::1',
      '2a00:1450::5efe:a00:1',
      '2a00:1450::200:5efe:a00:1',
    ],
    ...['::ffff:10.0.0.1', '2001:2::1', '2001:20::1', '', 'x', '1.2.3', '01.2.3.4', '1.2.3.4/8'],
  ]
  for (const address of refused) assert.equal(isAllowedAddress(address, strict), false, address)
  for (const address of ['8.8.8.8', '93.184.215.14', '2606:4700::1111', '2a00:1450:4001::1'])
    assert.equal(isAllowedAddress(address, strict), true, address)
  assert.equal(isAllowedAddress('127.0.0.1', { allowLoopback: true }), true)
  assert.equal(isAllowedAddress('10.0.0.1', { allowLoopback: true }), false)
})

test('over HTTP a private target is refused with invalid_url, at registration and at a change', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'off' } })
  const { client } = app
  const { key } = await app.customer({ cents: 0 })
  const listener = await privateListener(t)
  // A host that does not resolve is taken, and checked when it is dialled.
  const made = await client.post(path, { url: 'https://hooks.example.invalid.example/' }, { key })
  assert.equal(made.status, 201, made.text)
  for (const host of [...literals, ...names, '10.0.0.1', '169.254.169.254', '[fd00:ec2::254]']) {
    const url = `https://${host}:${listener.port}/hook`
    const answer = await client.post(path, { url }, { key })
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_url'], `${url}: ${answer.text}`)
    const changed = await client.call('PATCH', `${path}/${made.body.id}`, { key, json: { url } })
    assert.deepEqual([changed.status, changed.body.code], [400, 'invalid_url'], url)
  }
  const plain = await client.post(path, { url: 'http://hooks.example.com/' }, { key })
  assert.equal(plain.body.code, 'invalid_url')
  assert.equal(listener.connections(), 0)
  assert.equal((await client.get(path, { key })).body.total, 1)
})
