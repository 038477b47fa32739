import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { anyTargeting } from '../../../src/domain/exits/exit-targeting.ts'
import { createWhitelist } from '../../../src/features/lines/whitelist.ts'
import { createWhitelistLookup } from '../../../src/gateway/authenticate/whitelist-lookup.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { testDatabase } from '../../support/postgres.ts'

test('an entry of a whitelist that somebody wrote with SQL lets nobody in and hides no other', async (t) => {
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations)
  const keys = { master: masterKey(randomBytes(32)) }
  const whitelist = createWhitelist({ pool, clock: Date.now, keys })
  const [accountId, planId] = ['acc_one' as AccountId, 'pln_one' as PlanId]
  const targeting = { ...anyTargeting, country: 'de' }
  const networks = ['203.0.113.0/24', '198.51.100.7/32', '2a00:1450:4001:800::/64']
  const added = await whitelist.add(
    { planId, accountId },
    networks.map((cidr) => ({ cidr, label: '', targeting })),
    false,
  )
  assert.equal(added.outcome, 'added')

  const errors: unknown[] = []
  const find = (address: string) =>
    createWhitelistLookup({
      pool,
      keys,
      clock: Date.now,
      logger: { error: (fields: unknown) => errors.push(fields) },
      onError: (error) => assert.fail(String(error)),
    }).find(address)
  for (const address of ['203.0.113.9', '198.51.100.7', '2a00:1450:4001:800::5'])
    assert.deepEqual(await find(address), { planId, targeting })
  assert.deepEqual(errors, [])

  // A row of one's own, narrower than a real one; a real one that was moved, and one that leads to another plan.
  await pool.query(`insert into vault.whitelist (entry_id, account_id, plan_id, network, label, created_at, signature)
    select 'wle_forged_' || at, account_id, 'pln_stolen', given, '', created_at, signature
      from vault.whitelist, unnest(array['192.0.2.1/32', '203.0.113.9/32']::cidr[]) with ordinality as g (given, at)
     where network = '203.0.113.0/24'`)
  await pool.query(`update vault.whitelist set plan_id = 'pln_stolen' where network = '198.51.100.7/32'`)
  await pool.query(
    `update vault.whitelist set network = '192.0.2.2/32' where network = '2a00:1450:4001:800::/64'`,
  )
  for (const address of ['192.0.2.1', '192.0.2.2', '198.51.100.7']) assert.equal(await find(address), null)
  assert.deepEqual(await find('203.0.113.9'), { planId, targeting }, 'by the entry of the customer')
  assert.equal(errors.length, 4)
})
