import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { readConfig, SettingsRefused } from '../../src/app/config.ts'
import { unknownSettings } from '../../src/app/settings-command.ts'

const refusal = (env: NodeJS.ProcessEnv): string => {
  try {
    readConfig(env)
  } catch (error) {
    assert(error instanceof SettingsRefused)
    return error.message
  }
  throw new Error('the settings were taken')
}

const key = Buffer.alloc(32, 7).toString('base64')

test('the configuration needs no setting', () => {
  const config = readConfig({})
  assert.equal(config.port, 3000)
  assert.equal(config.host, '127.0.0.1')
  assert.equal(config.databaseUrl, null)
  assert.equal(config.demo, true)
  assert.deepEqual(config.rates, {
    key: { burst: 300, perSecond: 50 },
    address: { burst: 600, perSecond: 100 },
    scrapes: { burst: 100, perSecond: 20 },
  })
})

test('the data folder is next to package.json, and a relative FAREBOX_DATA is resolved from there, in any working directory', (t) => {
  const root = resolve(import.meta.dirname, '../..')
  const former = process.cwd()
  t.after(() => process.chdir(former))
  process.chdir(tmpdir())
  assert.equal(readConfig({}).dataDir, join(root, '.farebox'))
  assert.equal(readConfig({ FAREBOX_DATA: 'shop/data' }).dataDir, join(root, 'shop/data'))
  assert.equal(readConfig({ FAREBOX_DATA: '/srv/farebox' }).dataDir, '/srv/farebox')
})

test('a misspelt setting is reported with the correct name and without its value', () => {
  const warning = (name: string): string => unknownSettings({ [name]: 'hunter2' }).join()
  for (const [name, meant] of [
    ['FAREBOX_DAT', 'FAREBOX_DATA'],
    ['FAREBOX_DATE', 'FAREBOX_DATA'],
    ['FAREBOX_MASTERKEY', 'FAREBOX_MASTER_KEY'],
    ['FAREBOX_MATSER_KEY', 'FAREBOX_MASTER_KEY'],
    ['FAREBOX_PORT', 'PORT'],
    ['FAREBOX_DATABASE_URL', 'DATABASE_URL'],
    ['farebox_demo', 'FAREBOX_DEMO'],
    ['FAREBOX_TRUSTED_PROXIES', 'FAREBOX_TRUSTED_PROXY'],
  ] as const)
    assert.equal(warning(name), `${name} is not a setting and has no effect; did you mean ${meant}?`)
  assert.equal(
    warning('FAREBOX_WHATEVER_ELSE'),
    'FAREBOX_WHATEVER_ELSE is not a setting and has no effect; "farebox settings" lists them all',
  )
  assert.deepEqual(
    unknownSettings({ FAREBOX_DATA: '/srv', FAREBOX_DAT: '', FAREBOX_TEST_LOG: 'x', PATH: '/bin' }),
    [],
  )
})

test('an empty setting counts as not set', () => {
  assert.equal(readConfig({ PORT: '', FAREBOX_MASTER_KEY: '' }).port, 3000)
})

test('settings that are set are used', () => {
  const config = readConfig({
    PORT: '0',
    DATABASE_URL: 'postgres://u:p@h/d',
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
    FAREBOX_RATE_LIMIT: 'off',
    FAREBOX_DEMO: 'off',
    FAREBOX_CLOCK_OFFSET_MS: '-5000',
    FAREBOX_TRUSTED_PROXY: '10.0.0.0/8',
  })
  assert.equal(config.port, 0)
  assert.equal(config.rates, null)
  assert.equal(config.demo, false)
  assert.equal(config.clockOffsetMs, -5000)
  assert.deepEqual(config.masterKey, Buffer.alloc(32, 7))
  assert.equal(config.trustedProxies?.('10.1.2.3'), true)
})

test('modes of TLS that fall back to none are refused, and verify-ca needs its certificate', () => {
  const keys = { FAREBOX_MASTER_KEY: key, FAREBOX_SEAL_KEY: key }
  const withMode = (mode: string) => ({ ...keys, DATABASE_URL: `postgres://u:p@h/d?sslmode=${mode}` })
  for (const mode of ['require', 'verify-full', 'verify-ca&sslrootcert=/ca.pem']) readConfig(withMode(mode))
  for (const mode of ['prefer', 'allow', 'no-verify', 'verify-ca'])
    assert.match(refusal(withMode(mode)), /DATABASE_URL: .*disable \(the default\), require, verify-ca/, mode)
})

test('with DATABASE_URL the demo and the sandbox are off unless they are set', () => {
  const external = { DATABASE_URL: 'postgres://u:p@h/d', FAREBOX_MASTER_KEY: key, FAREBOX_SEAL_KEY: key }
  const partsOf = (env: Readonly<Record<string, string>>) => {
    const { demo, payments } = readConfig(env)
    return [demo, payments.sandbox !== null]
  }
  assert.deepEqual(partsOf({}), [true, true])
  assert.deepEqual(partsOf(external), [false, false])
  assert.deepEqual(partsOf({ ...external, FAREBOX_DEMO: 'on' }), [true, true])
  assert.deepEqual(partsOf({ ...external, FAREBOX_SANDBOX_URL: 'http://127.0.0.1:3001' }), [false, true])
  const real = { ...stripe, FAREBOX_DEMO: '', DATABASE_URL: external.DATABASE_URL }
  const [master, seal] = [randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString('base64'))
  const keys = { FAREBOX_MASTER_KEY: master, FAREBOX_SEAL_KEY: seal }
  assert.equal(readConfig({ ...real, ...keys }).demo, false)
})

test('all wrong settings are reported together, each with the given and the expected value', () => {
  assert.equal(
    refusal({ PORT: '99999', FAREBOX_DEMO: 'yes', LOG_LEVEL: 'loud', FAREBOX_RATE_KEY: '3' }),
    [
      'settings are wrong:',
      '  PORT: expected a whole number from 0 to 65535, got "99999"',
      '  LOG_LEVEL: expected one of fatal, error, warn, info, debug, trace, silent, got "loud"',
      '  FAREBOX_RATE_KEY: expected burst/perSecond, two whole numbers from 1 to 1000000, e.g. 300/50, got "3"',
      '  FAREBOX_DEMO: expected on or off, got "yes"',
    ].join('\n'),
  )
})

const wrong: readonly (readonly [string, string])[] = [
  ['PORT', 'x'],
  ['PORT', '-1'],
  ['PORT', '3000.5'],
  ['PORT', '0x10'],
  ['PORT', '1e3'],
  ['FAREBOX_RATE_LIMIT', 'true'],
  ['FAREBOX_RATE_ADDRESS', '0/1'],
  ['FAREBOX_RATE_ADDRESS', '1/1000001'],
  ['FAREBOX_RATE_KEY', '300'],
  ['FAREBOX_TRUSTED_PROXY', '10.0.0.0/99'],
  ['FAREBOX_CLOCK_OFFSET_MS', 'NaN'],
  ['FAREBOX_CRASH_AT', 'nowhere:1'],
  ['FAREBOX_POOL_SIZE', '0'],
]
for (const [name, value] of wrong)
  test(`${name}=${value} is refused by name`, () => {
    const message = refusal({ [name]: value })
    assert.match(
      message,
      new RegExp(`^a setting is wrong:\\n  ${name}: expected .*, got "${value.replace('.', '\\.')}"$`),
    )
  })

for (const name of ['FAREBOX_MASTER_KEY', 'FAREBOX_SEAL_KEY', 'DATABASE_URL', 'EVENTSTORE_URL'])
  test(`a wrong ${name} is refused and its value is not shown`, () => {
    const message = refusal({
      [name]: 'hunter2',
      FAREBOX_MASTER_KEY: key,
      FAREBOX_SEAL_KEY: key,
      ...{ [name]: 'hunter2' },
    })
    assert.match(message, new RegExp(`${name}: expected`))
    assert.doesNotMatch(message, /hunter2/)
  })

const stripe = {
  FAREBOX_STRIPE_SECRET_KEY: 'sk_live_51ExampleOfAKeyThatIsNone',
  FAREBOX_STRIPE_WEBHOOK_SECRET: 'whsec_exampleOfASecretThatIsNone',
  FAREBOX_PUBLIC_URL: 'https://shop.example.com',
  FAREBOX_DEMO: 'off',
}

for (const [name, value] of [
  ['FAREBOX_WEBHOOK_ALLOW_LOOPBACK', 'on'],
  ['FAREBOX_CLOCK_OFFSET_MS', '86400000'],
  ['FAREBOX_CRASH_AT', 'after-append:1'],
] as const)
  test(`${name} is for development: with real credentials the start fails`, () => {
    assert.ok(readConfig({ [name]: value }))
    assert.match(
      refusal({ ...stripe, [name]: value }),
      new RegExp(
        `^a setting is wrong:\\n  ${name} is for development and is refused beside credentials of a real provider$`,
      ),
    )
  })

test('webhooks may go to this machine in a demo that only this machine reaches', () => {
  assert.equal(readConfig({}).webhookAllowLoopback, true)
  for (const elsewhere of [
    { FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'off' },
    { FAREBOX_DEMO: 'off' },
    { HOST: '0.0.0.0' },
    { FAREBOX_GATEWAY_LISTEN: '127.0.0.1,0.0.0.0' },
    { FAREBOX_TRUSTED_PROXY: '127.0.0.1' },
    { FAREBOX_PUBLIC_URL: 'https://demo.example.com' },
    stripe,
  ])
    assert.equal(readConfig(elsewhere).webhookAllowLoopback, false, JSON.stringify(elsewhere))
})

test('a development setting that is off or zero is accepted with real credentials', () => {
  const config = readConfig({
    ...stripe,
    FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'off',
    FAREBOX_CLOCK_OFFSET_MS: '0',
  })
  assert.deepEqual([config.webhookAllowLoopback, config.clockOffsetMs], [false, 0])
})

test('with real credentials the rate limits are on and the demo is off', () => {
  assert.match(
    refusal({ ...stripe, FAREBOX_RATE_LIMIT: 'off' }),
    /^a setting is wrong:\n {2}FAREBOX_RATE_LIMIT=off is refused beside credentials of a real provider$/,
  )
  for (const demo of ['on', ''])
    assert.match(refusal({ ...stripe, FAREBOX_DEMO: demo }), /FAREBOX_DEMO must be off beside credentials/)
  assert.ok(readConfig({ FAREBOX_RATE_LIMIT: 'off', FAREBOX_CRASH_AT: 'after-append:1' }))
})

const base64 = (bytes: Iterable<number>): string => Buffer.from([...bytes]).toString('base64')
const weakKeys: Readonly<Record<string, string>> = {
  zeros: base64(Array(32).fill(0)),
  'a repeated byte': base64(Array(32).fill(7)),
  'a repeated pattern': base64(Array.from({ length: 32 }, (_, at) => at % 8)),
  'a sequence': base64(Array.from({ length: 32 }, (_, at) => at)),
  'a sequence down': base64(Array.from({ length: 32 }, (_, at) => 250 - 2 * at)),
  'a typed text': Buffer.from('correct horse battery staple 123').toString('base64'),
}
for (const [what, weak] of Object.entries(weakKeys))
  test(`with real credentials a key that is ${what} is refused and not shown`, () => {
    for (const name of ['FAREBOX_MASTER_KEY', 'FAREBOX_SEAL_KEY']) {
      const message = refusal({ ...stripe, [name]: weak })
      assert.match(message, new RegExp(`^a setting is wrong:\\n  ${name} .* so it can be guessed`))
      assert.ok(!message.includes(weak))
      assert.ok(readConfig({ [name]: weak }), 'it is taken for trying out')
    }
  })

test('with real credentials a metrics token that can be guessed is refused and not shown', () => {
  for (const token of [
    'aaaaaaaaaaaaaaaa',
    '0123456789012345',
    'abcdefghijklmnopq',
    'changeme-changeme',
    'secret-password-1',
  ]) {
    const message = refusal({ ...stripe, FAREBOX_METRICS_TOKEN: token })
    assert.match(message, /^a setting is wrong:\n {2}FAREBOX_METRICS_TOKEN .* so it can be guessed/, token)
    assert.ok(!message.includes(token))
  }
})

test('with real credentials random secrets are accepted, but not the same one for two purposes', () => {
  for (let round = 0; round < 2_000; round += 1)
    readConfig({
      ...stripe,
      FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
      FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
      FAREBOX_METRICS_TOKEN: randomBytes(16).toString(round % 2 === 0 ? 'hex' : 'base64url'),
    })
  const drawn = randomBytes(32).toString('base64')
  const same = { FAREBOX_MASTER_KEY: drawn, FAREBOX_SEAL_KEY: drawn }
  assert.match(refusal({ ...stripe, ...same }), /FAREBOX_MASTER_KEY and FAREBOX_SEAL_KEY are the same/)
})

test('both keys are required with an external database', () => {
  const message = refusal({ DATABASE_URL: 'postgres://u:p@h/d', PORT: 'x' })
  assert.match(message, /PORT: expected/)
  assert.match(message, /FAREBOX_MASTER_KEY is required with DATABASE_URL/)
  assert.match(message, /FAREBOX_SEAL_KEY is required with DATABASE_URL/)
})

test('the accounting time zone is the name of a zone', () => {
  assert.equal(readConfig({}).accountingTimeZone, 'UTC')
  const berlin = { FAREBOX_ACCOUNTING_TIME_ZONE: 'Europe/Berlin' }
  assert.equal(readConfig(berlin).accountingTimeZone, 'Europe/Berlin')
  for (const zone of ['Mars/Base', '+02:00'])
    assert.match(
      refusal({ FAREBOX_ACCOUNTING_TIME_ZONE: zone }),
      /FAREBOX_ACCOUNTING_TIME_ZONE.*a time zone such as Europe\/Berlin/,
    )
})
