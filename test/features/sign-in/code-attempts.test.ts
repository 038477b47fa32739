import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { createCodes, createLinks } from '../../../src/features/sign-in/sign-in-links.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { newSecret } from '../../../src/platform/vault/secrets.ts'
import { testDatabase } from '../../support/postgres.ts'

const wrongFor = (code: string, n: number): string =>
  String((Number(code) + n + 1) % 10 ** 8).padStart(8, '0')

test('a code is over after five wrong attempts, and after its time, whatever somebody writes into its row', async (t) => {
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations)
  let nowMs = Date.now()
  const logger = { error: () => undefined }
  const deps = { pool, clock: () => nowMs, keys: { master: masterKey(randomBytes(32)) }, logger }
  const links = createLinks(deps)
  const codes = createCodes(deps)

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
  nowMs += 11 * 60_000
  await pool.query(`update vault.console_codes set expires_at = expires_at + interval '1 day'`)
  assert.equal(await codes.redeem('ses_one', 'act', late), false, 'its time is over')
  assert.equal(await codes.redeem('ses_one', 'act', await codes.make('ses_one', 'act')), true)
})
