import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { addressSubject } from '../../../src/kernel/ip-address.ts'
import {
  clientAddress,
  noTrustedProxies,
  trustedProxies,
  wideNetworks,
} from '../../../src/platform/http/connections.ts'

const request = (peer: string, forwarded?: string): IncomingMessage =>
  ({
    socket: { remoteAddress: peer },
    headers: { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

describe('The address of a client', () => {
  test('is the peer if no proxy is trusted, whatever the client claims', () => {
    assert.equal(clientAddress(request('203.0.113.9', '10.1.1.1'), noTrustedProxies), '203.0.113.9')
    assert.equal(clientAddress(request('::ffff:203.0.113.9'), noTrustedProxies), '203.0.113.9')
  })

  test('is what the last trusted proxy saw, never an entry further left', () => {
    const trusted = trustedProxies('127.0.0.1, 10.0.0.0/8')
    assert.equal(clientAddress(request('127.0.0.1', '1.2.3.4, 198.51.100.7'), trusted), '198.51.100.7')
    assert.equal(
      clientAddress(request('127.0.0.1', '1.2.3.4, 198.51.100.7, 10.2.2.2'), trusted),
      '198.51.100.7',
    )
    assert.equal(clientAddress(request('::ffff:127.0.0.1', '2001:db8::1'), trusted), '2001:db8::1')
    assert.equal(clientAddress(request('203.0.113.9', '1.2.3.4'), trusted), '203.0.113.9')
  })

  test('is read without the port that some proxies append', () => {
    const trusted = trustedProxies('127.0.0.1, 10.0.0.0/8')
    for (const [forwarded, address] of [
      ['203.0.113.7:4711', '203.0.113.7'],
      ['1.2.3.4, 203.0.113.7:4711, 10.2.2.2:80', '203.0.113.7'],
      ['[2001:db8::1]:443', '2001:db8::1'],
      ['[2001:db8::1]', '2001:db8::1'],
      ['[::ffff:203.0.113.7]:443', '203.0.113.7'],
      ['::ffff:203.0.113.7', '203.0.113.7'],
    ] as const)
      assert.equal(clientAddress(request('127.0.0.1', forwarded), trusted), address, forwarded)
  })

  test('is the proxy itself if it forwards nothing usable', () => {
    const trusted = trustedProxies('127.0.0.1')
    for (const forwarded of [
      undefined,
      '',
      'unknown',
      'a, b',
      '1.2.3.4:',
      '1.2.3.4:http',
      '[1.2.3.4]:80',
      '[2001:db8::1]443',
      '[2001:db8::1',
      ':80',
    ])
      assert.equal(clientAddress(request('127.0.0.1', forwarded), trusted), '127.0.0.1')
  })

  test('counts an IPv6 client by its /64 network', () => {
    assert.equal(addressSubject('2001:db8:1:2:aaaa::1'), '2001:db8:1:2::/64')
    assert.equal(addressSubject('2001:db8:1:2:bbbb:0:0:2'), '2001:db8:1:2::/64')
    assert.equal(addressSubject('2001:db8::1'), '2001:db8:0:0::/64')
    assert.equal(addressSubject('::1'), '0:0:0:0::/64')
    assert.equal(addressSubject('203.0.113.9'), '203.0.113.9')
  })

  test('cannot be configured by an invalid address', () => {
    for (const bad of ['localhost', '10.0.0.0/33', '10.0.0.0/x', '10.0.0.0/8/8', '::1/129'])
      assert.throws(() => trustedProxies(bad), new RegExp(bad.replaceAll('/', '\\/')))
  })
})

test('a trusted network that is a large part of the Internet is reported', () => {
  const wide = [
    '0.0.0.0/0',
    '::/0',
    '0.0.0.0/1',
    '128.0.0.0/1',
    '1.0.0.0/7',
    '2000::/3',
    '2a00::/12',
    '0::0/0',
  ]
  assert.deepEqual(wideNetworks(['127.0.0.1', ...wide].join(', ')), wide)
  const fine = [
    '127.0.0.1',
    '10.0.0.0/8',
    '::1',
    'fc00::/7',
    'fd00::/8',
    '2a06:98c0::/29',
    '173.245.48.0/20',
    '',
  ]
  assert.deepEqual(wideNetworks(fine.join(',')), [])
})
