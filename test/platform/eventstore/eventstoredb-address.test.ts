import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { readConfig } from '../../../src/app/config.ts'
import {
  AddressRefused,
  connectionString,
  parseAddress,
  shownAddress,
} from '../../../src/platform/eventstore/eventstoredb/address.ts'
import { openClient } from '../../../src/platform/eventstore/eventstoredb/client.ts'

type ClientReading = {
  readonly dnsDiscover: boolean
  readonly hosts: readonly { readonly address: string; readonly port: number }[]
  readonly defaultCredentials?: { readonly username: string; readonly password: string }
} & Readonly<Record<string, unknown>>

const requireOf = createRequire(import.meta.url)
/** How the client itself reads an address. */
const { parseConnectionString } = requireOf('@eventstore/db-client/dist/Client/parseConnectionString.js') as {
  parseConnectionString(text: string): ClientReading
}

const taken = [
  'esdb://localhost?tls=false',
  'esdb://localhost:2113?tls=false',
  'esdb://localhost:2113/?tls=false',
  'esdb://a:2111,b:2112,c:2113?tls=false',
  'esdb://a:2111,b,c:2113?tls=false&nodePreference=leader',
  'esdb://admin:changeit@a:2111,b:2112,c:2113',
  'esdb://admin:p%40ss%3A%2F%3Fw%25rd@a.example:2111,10.0.0.2:2112?tls=true&tlsVerifyCert=true',
  'esdb+discover://admin:changeit@cluster.example:2113?nodePreference=follower',
  'esdb+discover://cluster.example?tls=false&gossip_timeout=3&DISCOVERY-INTERVAL=50&maxDiscoverAttempts=4',
  'esdb://a,b?tls=false&keepAliveInterval=-1&keepAliveTimeout=20000&defaultDeadline=5000&connectionName=books%20one',
]

for (const url of taken)
  test(`${url} is accepted, and read as the client reads it`, () => {
    assert.equal(readConfig({ EVENTSTORE_URL: url }).eventStoreUrl, url)
    const address = parseAddress(url)
    const client = parseConnectionString(url)
    assert.deepEqual(address.hosts, client.hosts)
    assert.equal(address.discover, client.dnsDiscover)
    assert.deepEqual(address.credentials ?? undefined, client.defaultCredentials)
    for (const [name, value] of address.parameters)
      assert.equal(
        String(client[name]).toLowerCase(),
        decodeURIComponent(value).toLowerCase(),
        `${name} of ${url}`,
      )
    assert.deepEqual(parseConnectionString(connectionString(address, {})), client, 'what the client is given')
  })

const refused: readonly (readonly [string, RegExp])[] = [
  ['http://127.0.0.1:2113', /must be esdb:\/\//],
  ['esdb://', /must be esdb:\/\//],
  ['esdb://a:2111,,c:2113?tls=false', /host 2 is missing/],
  ['esdb://a:2111,b:0?tls=false', /the port of host 2 \(b\) must be a number from 1 to 65535/],
  ['esdb://a:2111,b:65536?tls=false', /the port of host 2 \(b\)/],
  ['esdb://a:2111,b:21x?tls=false', /the port of host 2 \(b\)/],
  ['esdb://a:2111,B:2112,b:2112?tls=false', /b:2112 is named twice/],
  ['esdb://localhost,localhost:2113?tls=false', /localhost:2113 is named twice/],
  ['esdb://[::1]:2113?tls=false', /host 1 is an IPv6 address/],
  ['esdb://a?tls=no', /tls must be true or false/],
  ['esdb://a?tls=false&tls=false', /tls is given twice/],
  ['esdb://a?tls=false&TLS=true', /tls is given twice/],
  ['esdb://a?tls=false&keepAlive=3', /there is no parameter "keepAlive"; the parameters are tls, /],
  ['esdb://a?tls=false&', /there is no parameter ""/],
  ['esdb://a?tls=false&nodePreference=master', /nodePreference must be leader, follower/],
  ['esdb://a?tls=false&gossipTimeout=soon', /gossipTimeout must be a whole number above 0/],
  ['esdb://a?tls=false&throwOnAppendFailure=false', /throwOnAppendFailure must be true/],
  ['esdb://u:hunter2@a?tlsVerifyCert=false', /tlsVerifyCert must be true/],
  ['esdb://u:hunter2@a?userKeyFile=k.pem', /userCertFile and userKeyFile are given together/],
  ['esdb://a:2113', /must name user:password, or say tls=false/],
  ['esdb://a:2113?tls=true', /must name user:password, or say tls=false/],
  ['esdb://hunter2@a', /before the @ there must be user:password/],
  ['esdb://u:hun:ter2@a', /is written %3A/],
  ['esdb://u:hunter2%@a', /the password holds a % that is not written %25/],
  ['esdb://u:hunt@er2@a', /other @ \/ \? are written %40 %2F %3F/],
  ['esdb://u:hunt/er2@a', /must be esdb:\/\//],
  // The @ was forgotten.
  ['esdb://admin:hunter2', /the port of host 1 \(admin\)/],
]

for (const [url, expected] of refused)
  test(`${url} is refused with the reason, and without the password`, () => {
    assert.throws(() => parseAddress(url), expected)
    assert.throws(() => openClient(url), AddressRefused)
    assert.throws(
      () => readConfig({ EVENTSTORE_URL: url }),
      (error: Error) => {
        assert.match(error.message, /EVENTSTORE_URL: expected an address such as esdb:\/\//)
        assert.match(error.message, expected)
        assert.doesNotMatch(error.message, /hun:?t[@/]?er2/)
        return true
      },
    )
  })

test('all hosts of a discovery list are used, where the client alone would use the first', () => {
  assert.deepEqual(parseAddress('kurrentdb://a:1?tls=false'), parseAddress('esdb://a:1?tls=false'))
  assert.deepEqual(
    parseAddress('kurrentdb+discover://a:1,b:2?tls=false'),
    parseAddress('esdb+discover://a:1,b:2?tls=false'),
  )
  const address = parseAddress('esdb+discover://a:1,b:2?tls=false')
  assert.equal(connectionString(address, {}), 'esdb://a:1,b:2?tls=false')
})

test('given values override defaults, and secrets are not shown', () => {
  const address = parseAddress('esdb://u:hunter2@a:1,b:2?keepAliveTimeout=9000')
  assert.equal(
    connectionString(address, { keepAliveInterval: '3000', keepAliveTimeout: '3000' }),
    'esdb://u:hunter2@a:1,b:2?keepAliveInterval=3000&keepAliveTimeout=9000',
  )
  assert.equal(shownAddress(address), 'esdb://a:1,b:2')
})

test('a missing file of certificates fails a start with a message', () => {
  assert.throws(
    () => openClient('esdb://u:hunter2@a?tlsCAFile=%2Fnowhere%2Fca.pem'),
    (error: Error) => {
      assert.equal(error.name, 'StartRefused')
      assert.match(error.message, /^EVENTSTORE_URL names a file of certificates: .*not found/)
      assert.doesNotMatch(error.message, /hunter2/)
      return true
    },
  )
})
