import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { createSignInLimits, signInDelayS } from '../../../src/features/sign-in/sign-in.ts'
import { createCodes, createLinks } from '../../../src/features/sign-in/sign-in-links.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { newSecret } from '../../../src/platform/vault/secrets.ts'
import { testDatabase } from '../../support/postgres.ts'

const wrongFor = (code: string, n: number): string =>
  String((Number(code) + n + 1) % 10 ** 8).padStart(8, '0')

const world = async (t: TestContext) => {
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations)
  const time = { nowMs: Date.now() }
  const logger = { error: () => undefined }
  const dependencies = { pool, clock: () => time.nowMs, keys: { master: masterKey(randomBytes(32)) }, logger }
  return { pool, time, links: createLinks(dependencies), codes: createCodes(dependencies) }
}

test('a code is invalid after five wrong attempts and after its time, whatever its row contains', async (t) => {
  const { pool, time, links, codes } = await world(t)

  const browser = newSecret()
  const mailed = { subjectId: 'acc_one', email: 'one@customer.example', browser }
  const opened = await links.open(await links.mailed(mailed), newSecret())
  assert.ok(opened?.kind === 'code')
  for (let n = 0; n < 5; n++) {
    assert.equal(await links.redeem(wrongFor(opened.code, n), browser), null)
    await pool.query('update vault.console_links set attempts = 0')
  }
  assert.equal(await links.redeem(opened.code, browser), null, 'the attempts are over')
  const next = await links.open(await links.mailed(mailed), newSecret())
  assert.ok(next?.kind === 'code')
  assert.deepEqual(await links.redeem(next.code, browser), { subjectId: 'acc_one' }, 'of another link')

  const code = await codes.make('ses_one', 'act')
  for (let n = 0; n < 5; n++) {
    assert.equal(await codes.redeem('ses_one', 'act', wrongFor(code, n)), false)
    await pool.query('update vault.console_codes set attempts = 0')
  }
  assert.equal(await codes.redeem('ses_one', 'act', code), false, 'the attempts are over')
  const late = await codes.make('ses_one', 'act')
  time.nowMs += 11 * 60_000
  await pool.query(`update vault.console_codes set expires_at = expires_at + interval '1 day'`)
  assert.equal(await codes.redeem('ses_one', 'act', late), false, 'its time is over')
  assert.equal(await codes.redeem('ses_one', 'act', await codes.make('ses_one', 'act')), true)
})

test('a link is valid for ten minutes, even if another one is requested for the same address', async (t) => {
  const { pool, time, links } = await world(t)
  const ask = (browser: string) =>
    links.mailed({ subjectId: 'acc_one', email: 'one@customer.example', browser })
  const own = newSecret()
  const first = await ask(own)
  for (let n = 0; n < 3; n++) await ask(newSecret())
  const second = await ask(own)
  assert.equal((await links.open(first, own))?.kind, 'session')
  assert.equal(
    await links.open(second, own),
    null,
    'a sign-in ends the other links that its browser requested',
  )

  const third = await ask(own)
  const fourth = await ask(own)
  const shown = await links.open(fourth, newSecret())
  assert.ok(shown?.kind === 'code')
  await ask(newSecret())
  assert.deepEqual(await links.redeem(shown.code, own), { subjectId: 'acc_one' })
  assert.equal(await links.open(third, own), null)

  const late = await ask(own)
  time.nowMs += 10 * 60_000
  await ask(newSecret())
  assert.equal(await links.open(late, own), null)
  const { rows } = await pool.query('select count(*)::int from vault.console_links')
  assert.equal(rows[0].count, 1, 'what is over is deleted')
})

test('a code that confirms an action is valid until it is used or expired, even if its session requests others', async (t) => {
  const { codes } = await world(t)
  const first = await codes.make('ses_one', 'order')
  const other = await codes.make('ses_one', 'refund')
  const second = await codes.make('ses_one', 'order')
  assert.equal(await codes.redeem('ses_one', 'refund', first), false, 'a code is good for its own act')
  assert.equal(await codes.redeem('ses_two', 'order', first), false)
  assert.equal(await codes.redeem('ses_one', 'order', first), true)
  assert.equal(await codes.redeem('ses_one', 'order', second), false, 'its act is confirmed')
  assert.equal(await codes.redeem('ses_one', 'refund', other), true)

  const tried = [await codes.make('ses_one', 'order'), await codes.make('ses_one', 'order')]
  const wrong = [0, 1, 2, 3, 4, 5].map((n) => wrongFor(tried[0]!, n)).filter((code) => !tried.includes(code))
  for (const code of wrong.slice(0, 5)) assert.equal(await codes.redeem('ses_one', 'order', code), false)
  for (const code of tried) assert.equal(await codes.redeem('ses_one', 'order', code), false)
})

test('requests for links from one source neither block other sources nor flood a mailbox', () => {
  let nowMs = 0
  const limits = createSignInLimits(() => nowMs)
  const ask = (source: string, email = 'ann@example.com') => signInDelayS(limits, source, email) === 0
  assert.equal(Array.from({ length: 10 }, () => ask('203.0.113.7')).filter(Boolean).length, 5)
  assert.equal(ask('198.51.100.1', 'ANN@example.com'), true)
  assert.equal(ask('203.0.113.7', 'bob@example.com'), true)
  // The addresses of one network of IPv6 are one place.
  assert.equal(Array.from({ length: 10 }, (_, n) => ask(`2001:db8::${n + 1}`)).filter(Boolean).length, 5)
  const places = Array.from({ length: 100 }, (_, n) => ask(`192.0.2.${n}`)).filter(Boolean)
  assert.ok(places.length < 30, `${places.length} letters`)
  nowMs += 60_000
  assert.equal(ask('198.51.100.1'), true)
})
