import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anyTargeting } from '../../../src/domain/exits/line.ts'
import {
  generateLines,
  type LineFormat,
  type LineProtocol,
} from '../../../src/features/lines/generate-lines.ts'
import { connectionOf } from '../../../src/features/plans/plan-record.ts'

const credential = { username: 'u7k2m9x4', password: 'secret' }
const plain = { host: 'gw.example', port: 9000, tls: null }
const withTls = { ...plain, tls: { port: 9443 } }
const lineOf = (protocol: LineProtocol, format: LineFormat, gateway: typeof plain | typeof withTls) =>
  generateLines({
    count: 1,
    stickyMinutes: 0,
    protocol,
    format,
    template: '{PROTOCOL} {HOST} {PORT}',
    targeting: anyTargeting,
    set: null,
    gateway,
    credential,
  })[0]

test('https lines name the TLS port, if there is one', () => {
  assert.equal(lineOf('https', 'url', withTls), 'https://u7k2m9x4:secret@gw.example:9443')
  assert.equal(lineOf('https', 'host:port:user:pass', withTls), 'gw.example:9443:u7k2m9x4:secret')
  assert.equal(lineOf('https', 'custom', withTls), 'https gw.example 9443')
  assert.equal((lineOf('https', 'json', withTls) as { port: number }).port, 9443)
  assert.equal(lineOf('http', 'url', withTls), 'http://u7k2m9x4:secret@gw.example:9000')
  assert.equal(lineOf('socks5', 'url', withTls), 'socks5h://u7k2m9x4:secret@gw.example:9000')
  assert.equal(lineOf('https', 'url', plain), 'http://u7k2m9x4:secret@gw.example:9000')
})

test('the connection of a plan names the TLS port, or null', () => {
  assert.deepEqual(connectionOf(withTls, credential).ports, { http: 9000, https: 9443, socks5: 9000 })
  assert.deepEqual(connectionOf(plain, credential).ports, { http: 9000, https: null, socks5: 9000 })
})
