import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { anyTargeting } from '../../../src/domain/exits/line.ts'
import { createIsAllowed } from '../../../src/features/lines/whitelist-commitments.ts'
import { createWhitelistLookup } from '../../../src/gateway/authenticate/whitelist-lookup.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { cause, serviceWorld } from '../../features/accounts/world.ts'
import { type WhitelistEntry, whitelistOf } from '../../features/lines/whitelist-world.ts'

const [accountId, planId] = ['acc_one' as AccountId, 'pln_one' as PlanId]
const plan = { accountId, planId }
const targeting = { ...anyTargeting, country: 'de' }
const address = '198.51.100.7'
const entry = { cidr: `${address}/32`, label: '', targeting }

/** A whitelist, and the view of a gateway that has just started; `errors` is its log. */
const gatewayWorld = async (t: TestContext) => {
  const world = await serviceWorld(t)
  const { pool, log } = world
  const errors: object[] = []
  const isAllowed = createIsAllowed(log)
  const find = (source: string) =>
    createWhitelistLookup({
      pool,
      isAllowed,
      clock: Date.now,
      monotonicMs: () => performance.now(),
      logger: { error: (fields: object) => errors.push(fields) },
      onError: (error) => errors.push({ lastUse: String(error) }),
    }).find(source)
  const whitelist = whitelistOf(world)
  const added = async (...given: Parameters<typeof whitelist.add>) => {
    const answer = await whitelist.add(...given)
    assert.ok(answer.outcome === 'added')
    return answer.entries
  }
  /** Copies all rows, to be put back with SQL. */
  const copy = () => pool.query('create table public.copied as select * from vault.whitelist')
  const putBack = async (): Promise<void> => {
    await pool.query('delete from vault.whitelist')
    await pool.query('insert into vault.whitelist select * from public.copied')
  }
  return { pool, find, whitelist, added, errors, copy, putBack }
}

test('a whitelist entry inserted with SQL admits no client and hides no other entry', async (t) => {
  const { pool, find, added, errors } = await gatewayWorld(t)
  const networks = ['203.0.113.0/24', '198.51.100.7/32', '2a00:1450:4001:800::/64']
  await added(
    plan,
    networks.map((cidr) => ({ cidr, label: '', targeting })),
    false,
    cause,
  )
  for (const each of ['203.0.113.9', '198.51.100.7', '2a00:1450:4001:800::5'])
    assert.partialDeepStrictEqual(await find(each), { planId, targeting })
  assert.deepEqual(errors, [])

  // A row of one's own, narrower than a real one; a real one that was moved, and one that leads to another plan.
  await pool.query(`insert into vault.whitelist (entry_id, account_id, plan_id, network, label, created_at, salt)
    select 'wle_forged_' || at, account_id, 'pln_stolen', given, '', created_at, salt
      from vault.whitelist, unnest(array['192.0.2.1/32', '203.0.113.9/32']::cidr[]) with ordinality as g (given, at)
     where network = '203.0.113.0/24'`)
  await pool.query(`update vault.whitelist set plan_id = 'pln_stolen' where network = '198.51.100.7/32'`)
  await pool.query(
    `update vault.whitelist set network = '192.0.2.2/32' where network = '2a00:1450:4001:800::/64'`,
  )
  for (const each of ['192.0.2.1', '192.0.2.2', '198.51.100.7']) assert.equal(await find(each), null)
  assert.partialDeepStrictEqual(
    await find('203.0.113.9'),
    { planId, targeting },
    'by the entry of the customer',
  )
  assert.equal(errors.length, 4)
})

test('a removed entry whose row is restored with SQL admits no client, and is logged', async (t) => {
  const { find, added, whitelist, errors, copy, putBack } = await gatewayWorld(t)
  const [{ id }] = (await added(plan, [entry], false, cause)) as readonly [WhitelistEntry]
  await copy()
  assert.equal(await whitelist.remove(plan, id, cause), true)
  assert.equal(await find(address), null)
  await putBack()
  assert.equal(await find(address), null)
  assert.deepEqual(errors, [{ entryId: id, accountId }])

  // The customer adds the address once more: by its own row, and not by that of before.
  await added(plan, [entry], false, cause)
  assert.partialDeepStrictEqual(await find(address), { planId, targeting })
  await putBack()
  assert.equal(await find(address), null)
})

test('a changed or moved entry has only its last plan and targeting, whatever row is restored', async (t) => {
  const { find, added, errors, copy, putBack } = await gatewayWorld(t)
  const [{ id }] = (await added(plan, [entry], false, cause)) as readonly [WhitelistEntry]
  await copy()
  const other = { accountId, planId: 'pln_two' as PlanId }
  const [moved] = await added(other, [{ ...entry, targeting: null }], true, cause)
  assert.equal(moved?.id, id)
  assert.partialDeepStrictEqual(await find(address), { planId: 'pln_two', targeting: null })
  assert.deepEqual(errors, [])
  await putBack()
  assert.equal(await find(address), null)
})

test("a removal ends the permission of the log's entry, also if the row was changed before", async (t) => {
  const { pool, find, added, whitelist, copy, putBack } = await gatewayWorld(t)
  const [{ id }] = (await added(plan, [entry], false, cause)) as readonly [WhitelistEntry]
  await copy()
  await pool.query("update vault.whitelist set salt = sha256('x')")
  assert.equal(await whitelist.remove(plan, id, cause), true)
  await putBack()
  assert.equal(await find(address), null)
})
