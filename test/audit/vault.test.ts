import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { findingText } from '../../src/books/audit/verify/finding.ts'
import { verifyLog } from '../../src/books/audit/verify/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import { commitmentOf, commitmentSql, freshSalt } from '../../src/platform/vault/commitment.ts'
import { buyer, serviceWorld } from '../accounts/world.ts'
import { testDatabase } from '../support/postgres.ts'
import { tamper, testKey } from './world.ts'

type Verified = Pick<Awaited<ReturnType<typeof serviceWorld>>, 'pool' | 'log'>

const verified = ({ pool, log }: Verified) =>
  verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
  )

/** A change of one table, put back afterwards; what a verification says of it. */
const mutated = async (
  world: Verified,
  table: string,
  change: string,
  values: readonly unknown[] = [],
): Promise<readonly string[]> => {
  const { pool } = world
  await pool.query(`create table if not exists public.kept as select * from ${table}`)
  await pool.query(change, [...values])
  const { findings } = await verified(world)
  await pool.query(`delete from ${table}`)
  await pool.query(`insert into ${table} select * from public.kept`)
  return findings.map(findingText)
}

test('Postgres makes the same commitment, and each part of it counts', async (t) => {
  const { pool } = await testDatabase(t)
  const bytes = freshSalt()
  const parts = { what: 'api-key', id: 'key_1', owner: 'acc_ü' }
  const sql = commitmentSql({ what: '$1::text', id: '$2::text', owner: '$3::text', salted: '$4::bytea' })
  const { rows } = await pool.query<{ digest: string }>(`select ${sql} as digest`, [
    ...Object.values(parts),
    bytes,
  ])
  assert.equal(rows[0]?.digest, commitmentOf(parts, bytes))
  const others = [
    commitmentOf({ ...parts, what: 'other' }, bytes),
    commitmentOf({ ...parts, id: 'key_2' }, bytes),
    commitmentOf({ ...parts, owner: 'acc_2' }, bytes),
    commitmentOf(parts, freshSalt()),
  ]
  assert.equal(new Set([...others, rows[0]?.digest]).size, 5)
})

describe('keys of the vault', () => {
  const twoBuyers = async (t: TestContext) => {
    const world = await serviceWorld(t)
    const [rich, poor] = [await buyer(world), await buyer(world, { email: 'poor@example.com' })]
    return { world, rich, poor }
  }
  const table = 'vault.api_keys'

  test('every change of a row that lets a key act for another is found, at the event that issued it', async (t) => {
    const { world, rich, poor } = await twoBuyers(t)
    const clean = await verified(world)
    assert.deepEqual(clean.findings.map(findingText), [])
    assert.deepEqual(clean.vault, [{ table, checked: 2, uncommitted: 0, erased: 0 }])
    const [richKey, poorKey] = [rich.keyId, poor.keyId]
    const set = (change: string) => `update ${table} set ${change} where key_id = $1`
    const own = "hash = sha256('my own key')"
    const changes: readonly (readonly [change: string, values: unknown[], found: string])[] = [
      [set(own), [richKey], richKey],
      [set(`${own}, salt = null`), [richKey], richKey],
      [set("salt = sha256('x')"), [richKey], richKey],
      [set('account_id = $2'), [poorKey, rich.accountId], poorKey],
      // The poor key under the name of the rich one: hash, salt and account go together.
      [
        `with poor as (delete from ${table} where key_id = $2 returning hash, salt)
         update ${table} k set hash = poor.hash, salt = poor.salt from poor where k.key_id = $1`,
        [richKey, poorKey],
        richKey,
      ],
    ]
    for (const [change, values, found] of changes) {
      const said = await mutated(world, table, change, values)
      assert.equal(said.length, 1, `${change}: ${said.join('; ')}`)
      assert.match(said[0]!, new RegExp(`^vault: event \\d+ \\([^)]*KeyIssued.*: vault.api_keys .*${found}`))
    }
    assert.deepEqual((await verified(world)).findings, [])
  })

  test('a key of before there were commitments is outside, and one that was erased is no finding', async (t) => {
    const { world, rich, poor } = await twoBuyers(t)
    const { pool, log } = world
    await tamper(pool, [
      `update log.events set data = (data::jsonb - 'commitment')::text where type = 'KeyIssued' and data like $1`,
      [`%${rich.keyId}%`],
    ])
    await pool.query(`update ${table} set hash = sha256('another') where key_id = $1`, [rich.keyId])
    await pool.query(`delete from ${table} where key_id = $1`, [poor.keyId])
    const { findings, vault } = await verified({ pool, log })
    assert.deepEqual(findings.map(findingText), [])
    assert.deepEqual(vault, [{ table, checked: 0, uncommitted: 1, erased: 1 }])
  })
})
