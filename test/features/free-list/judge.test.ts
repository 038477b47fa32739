import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { connect } from 'node:tls'
import {
  anonymityOf,
  answerText,
  isNonce,
  judgeKeys,
  makeNonce,
  readAnswer,
} from '../../../src/features/free-list/judge.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import fc from '../../support/fast-check.ts'
import { keys, startProber } from './world.ts'

const others = judgeKeys(masterKey(randomBytes(32)))
const nowMs = 1_800_000_000_000
const nonce = makeNonce(keys.nonces, nowMs, 'abcdefghijkl')

test('the judge answers only nonces of this service, for two minutes', async (t) => {
  const { judge } = await startProber(t, () => nowMs)
  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${judge.httpPort}/${path}`, { method })
    return { status: answer.status, body: await answer.text() }
  }
  const good = await ask(nonce)
  assert.equal(good.status, 200)
  const seen = readAnswer(keys.answers, nonce, Buffer.from(good.body))
  assert.equal(seen?.ip, '127.0.0.1')
  for (const path of [
    '',
    'favicon.ico',
    `${nonce.slice(0, -1)}${nonce.endsWith('A') ? 'B' : 'A'}`,
    makeNonce(others.nonces, nowMs, 'abcdefghijkl'),
  ])
    assert.deepEqual(await ask(path), { status: 404, body: '' })
  assert.equal((await ask(nonce, 'POST')).status, 404)
  assert.equal(isNonce(keys.nonces, nonce, nowMs + 119_000), true)
  assert.equal(isNonce(keys.nonces, nonce, nowMs + 121_000), false)
  const tls = connect({ host: '127.0.0.1', port: judge.tlsPort, rejectUnauthorized: false })
  await new Promise<void>((resolve) => tls.once('secureConnect', resolve))
  assert.ok(tls.getPeerX509Certificate()?.publicKey.equals(keys.tls.publicKey))
  tls.destroy()
})

test('a changed, invented or repeated answer is refused', () => {
  const text = answerText(keys.answers, nonce, { ip: '203.0.113.7', headers: [['Via', '1.1 proxy']] })
  assert.ok(readAnswer(keys.answers, nonce, Buffer.from(text)))
  assert.equal(
    readAnswer(keys.answers, makeNonce(keys.nonces, nowMs, 'another_draw'), Buffer.from(text)),
    null,
  )
  assert.equal(readAnswer(others.answers, nonce, Buffer.from(text)), null)
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.nat(255), (at, byte) => {
      const bytes = Buffer.from(text)
      fc.pre(bytes[at] !== byte)
      bytes[at] = byte
      assert.equal(readAnswer(keys.answers, nonce, bytes), null)
    }),
  )
  for (const made of ['', '\n', '{}', `${'A'.repeat(43)}\n{}`])
    assert.equal(readAnswer(keys.answers, nonce, Buffer.from(made)), null)
})

test('anonymity is derived from the exit address and the changed headers', () => {
  const sent = [
    ['Host', '198.51.100.1:8080'],
    ['Accept', '*/*'],
    ['Connection', 'close'],
  ] as const
  const ours = new Set(['198.51.100.1', '2001:db8::1'])
  const of = (headers: readonly (readonly [string, string])[], ip = '203.0.113.7') =>
    anonymityOf(sent, { ip, headers }, ours)
  const plain = [
    ['host', '198.51.100.1:8080'],
    ['Accept', '*/*'],
    ['Connection', 'keep-alive'],
  ] as const
  assert.equal(of(plain), 'elite')
  assert.equal(of([...plain, ['Via', '1.1 squid']]), 'anonymous')
  assert.equal(of([...plain, ['X-Forwarded-For', '198.51.100.10']]), 'anonymous')
  assert.equal(of(plain.slice(0, 1)), 'anonymous')
  assert.equal(of([...plain.slice(0, 1), ['Accept', 'text/html']]), 'anonymous')
  for (const value of [
    '198.51.100.1',
    'unknown, 198.51.100.1',
    'for="[2001:db8::1]:4711"',
    'for=198.51.100.1:80;by=x',
    '::ffff:198.51.100.1',
  ])
    assert.equal(of([...plain, ['X-Whatever', value]]), 'transparent', value)
  assert.equal(of(plain, '198.51.100.1'), 'transparent')
  assert.equal(of(plain, '::ffff:198.51.100.1'), 'transparent')
})
