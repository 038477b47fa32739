import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { anyTargeting } from '../../../src/domain/exits/line.ts'
import {
  changeCustomer,
  createChatSigner,
  createCustomers,
} from '../../../src/features/accounts/customers.ts'
import { createExitLogins } from '../../../src/features/exits/live-exits.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import { createResellerCredentials } from '../../../src/features/resellers/gateway-credentials.ts'
import { createResellers } from '../../../src/features/resellers/terms.ts'
import { createStockLogins } from '../../../src/features/stock/stock-logins.ts'
import { createWebhooks } from '../../../src/features/webhooks/endpoint-service.ts'
import { createWebhookValues } from '../../../src/features/webhooks/webhook-vault.ts'
import type { CustomerIdOf } from '../../../src/kernel/external-id.ts'
import { type AccountId, newId, type PlanId } from '../../../src/kernel/ids.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { commitmentOf, commitmentSql, createVault, freshSalt } from '../../../src/platform/vault/seal.ts'
import { buyer, cause, serviceWorld } from '../../features/accounts/world.ts'
import { type WhitelistEntry, whitelistOf } from '../../features/lines/whitelist-world.ts'
import { openPlan } from '../../features/plans/open-plan.ts'
import { postgresWorld, runnerOver } from '../../platform/commands/world.ts'
import { testDatabase } from '../../support/postgres.ts'
import { tamper, testKey } from '../world.ts'

type Verified = Pick<Awaited<ReturnType<typeof serviceWorld>>, 'pool' | 'log'>

const master = masterKey(Buffer.alloc(32, 7))
const keys = { master, seal: Buffer.alloc(32, 8) }

const verified = ({ pool, log }: Verified, customerIdOf?: CustomerIdOf) =>
  verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    {
      runId: newId('vrf'),
      publicKey: testKey().publicKey,
      exported: null,
      keys,
      ...(customerIdOf && { customerIdOf }),
    },
  )

/** A change of one table, undone afterwards, and its findings in a verification. */
const mutated = async (
  world: Verified,
  table: string,
  change: string,
  values: readonly unknown[] = [],
  customerIdOf?: CustomerIdOf,
): Promise<readonly string[]> => {
  const { pool } = world
  await pool.query(`create table if not exists public.saved as select * from ${table}`)
  await pool.query(change, [...values])
  const { findings } = await verified(world, customerIdOf)
  await pool.query(`delete from ${table}`)
  await pool.query(`insert into ${table} select * from public.saved`)
  return findings.map(findingText)
}

test('Postgres computes the same commitment, and each part of it counts', async (t) => {
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

  test('every changed row that lets a key act for another account is found at the event that issued the key', async (t) => {
    const { world, rich, poor } = await twoBuyers(t)
    const clean = await verified(world)
    assert.deepEqual(clean.findings.map(findingText), [])
    assert.deepEqual(clean.vault[0], { table, checked: 2, adopted: 0, uncommitted: 0, erased: 0 })
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

  test('a key issued before commitments existed is reported as not covered; an erased one is not a finding', async (t) => {
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
    assert.deepEqual(vault[0], { table, checked: 0, adopted: 0, uncommitted: 1, erased: 1 })
  })
})

describe('traffic counters', () => {
  const table = 'work.traffic'
  const gb = 1_000_000_000
  /** The plans were not ordered, which is found as well. */
  const trafficIn = (found: readonly string[]) => found.filter((each) => each.startsWith('traffic:'))

  test('that are behind the log, of no plan, or ahead without a report are found; reported ones are named', async (t) => {
    const { pool, wire: log } = await postgresWorld(t)
    const runner = runnerOver(log)
    t.after(() => runner.close())
    const meter = createMeter({ pool, runner, clock: Date.now, logger: { error: assert.fail } })
    const [half, fresh] = [await openPlan(runner, 'half', 10 * gb), await openPlan(runner, 'fresh', 10 * gb)]
    const report = (sequence: number, ...plans: PlanId[]) =>
      meter.report({ reporter: 'gateway', sequence, traffic: new Map(plans.map((plan) => [plan, gb])) })
    await report(1, half)
    await meter.settle(half)
    await report(2, half, fresh)
    const clean = await verified({ pool, log })
    const said = trafficIn(clean.findings.map(findingText))
    assert.deepEqual([said, clean.unloggedTraffic], [[], { plans: 2, bytes: 2 * gb }])
    const set = (change: string) => `update ${table} set ${change} where plan_id = $1`
    const changes: readonly (readonly [change: string, ...says: RegExp[]])[] = [
      [
        set('used_bytes = 5'),
        /^traffic: work.traffic counts 5 bytes of plan pln_half, the log has 1000000000 already$/,
      ],
      [
        set('counted_since = null'),
        /^traffic: .* 2000000000 bytes of plan pln_half, the log has 1000000000, and no report/,
      ],
      [
        set("plan_id = 'pln_unknown'"),
        /^traffic: .* the plan pln_unknown, which the log does not have$/,
        /^traffic: .* counts 0 bytes of plan pln_half, the log and traffic\.metered_hours have 2000000000$/,
      ],
      [
        set(`used_bytes = ${gb}, counted_since = null`),
        /^traffic: .* counts 1000000000 bytes of plan pln_half, the log and traffic\.metered_hours have 2000000000$/,
      ],
    ]
    for (const [change, ...says] of changes) {
      const found = trafficIn(await mutated({ pool, log }, table, change, [half]))
      assert.equal(found.length, says.length, `${change}: ${found.join('; ')}`)
      for (const [at, one] of says.entries()) assert.match(found[at]!, one)
    }
    await pool.query(
      `create table traffic.requests_all partition of traffic.requests default;
       insert into traffic.requests (plan_id, hour, ended_at, request_id, protocol, bytes_up, bytes_down, duration_ms)
       select plan_id, hour, hour, 'req_test', 'connect', 1, 999999999, 1 from traffic.metered_hours;
       insert into traffic.merged_hours (plan_id, hour, requests, failures, bytes_up, bytes_down)
       select plan_id, hour, 1, 0, bytes - 1000000000, 0 from traffic.metered_hours;
       insert into work.plan_hours select plan_id, hour, 0, bytes, 1 from traffic.metered_hours;
       insert into traffic.metered_hours select plan_id, hour - interval '1 hour', 0 from traffic.metered_hours`,
    )
    assert.deepEqual(trafficIn((await verified({ pool, log })).findings.map(findingText)), [])
    await pool.query('update traffic.metered_hours set bytes = bytes - 1 where plan_id = $1 and bytes > 0', [
      half,
    ])
    const low = trafficIn(await mutated({ pool, log }, table, set('used_bytes = used_bytes - 1'), [half]))
    assert.equal(low.length, 2, low.join('; '))
    const has = String.raw`^traffic: traffic\.metered_hours has 1999999999 bytes of plan pln_half`
    assert.match(low[0]!, new RegExp(`${has} at \\S+, the records of its requests have 2000000000$`))
    assert.match(low[1]!, new RegExp(`${has} after its first hour, work\\.plan_hours has 2000000000$`))
    await pool.query(
      `delete from traffic.requests; delete from traffic.merged_hours; delete from work.plan_hours;
       delete from traffic.metered_hours where bytes = 0`,
    )
    await pool.query('update traffic.metered_hours set bytes = bytes + 1 where plan_id = $1', [half])
    // The first hour of this plan was deleted: the log has what it used until then.
    await pool.query(
      `update traffic.metered_hours set hour = hour + interval '1 day',
              bytes = case plan_id when $1 then ${gb} else bytes end`,
      [half],
    )
    assert.deepEqual(trafficIn((await verified({ pool, log })).findings.map(findingText)), [])
    const one = set('used_bytes = used_bytes - 1')
    assert.match(
      trafficIn(await mutated({ pool, log }, table, one, [half])).join(),
      /^traffic: .* counts 1999999999 bytes of plan pln_half, the log and .* have 2000000000$/,
    )
    await pool.query(
      `update traffic.metered_hours set hour = hour - interval '1 day',
              bytes = case plan_id when $1 then ${2 * gb} else bytes end`,
      [half],
    )
    await meter.settle(half)
    await meter.settle(fresh)
    const settled = await verified({ pool, log })
    const still = trafficIn(settled.findings.map(findingText))
    assert.deepEqual([still, settled.unloggedTraffic], [[], { plans: 0, bytes: 0 }])
  })
})

describe('values that resellers and receivers left in the vault', () => {
  /** A webhook with a URL and a secret, a gateway and a bot, and two customers. */
  const business = async (t: TestContext) => {
    const world = await serviceWorld(t)
    const { pool, runner } = world
    const vault = createVault(master)
    const { accountId } = await buyer(world, { reseller: true })
    const webhooks = createWebhooks({ runner, values: createWebhookValues({ pool, vault }) })
    const register = async (url: string) => {
      const made = await webhooks.register({ accountId, url, events: null }, cause)
      assert.ok(made.outcome === 'done')
      return made.endpointId
    }
    const endpointId = await register('https://first.example.com')
    await register('https://other.example.com')
    await webhooks.change({ accountId, endpointId }, { url: 'https://second.example.com' }, cause)
    await webhooks.rotateSecret({ accountId, endpointId }, cause)
    const resellers = createResellers({ runner, credentials: createResellerCredentials({ pool, vault }) })
    const stripe = { provider: 'stripe', secretKey: 'sk_test_1', webhookSecret: 'whsec_1' } as const
    for (const rail of ['card', 'crypto'] as const)
      assert.equal((await resellers.setGateway(accountId, rail, stripe, cause)).outcome, 'done')
    const customers = createCustomers({ pool, master })
    await customers.ensure(accountId, '+1 555 0100')
    await customers.ensure(accountId, '+1 555 0101')
    return { world, customerIdOf: customers.idOf }
  }

  test('are checked: each exchanged value is found at its event, and a reference at its customer', async (t) => {
    const { world, customerIdOf } = await business(t)
    const clean = await verified(world, customerIdOf)
    assert.deepEqual(clean.findings.map(findingText), [])
    const none = { checked: 0, adopted: 0, uncommitted: 0, erased: 0 }
    assert.deepEqual(clean.vault.slice(1), [
      { ...none, table: 'vault.webhook_values', checked: 6 },
      { ...none, table: 'vault.reseller_credentials', checked: 2 },
      { ...none, table: 'vault.accounts', checked: 1 },
      { ...none, table: 'vault.staff' },
      { ...none, table: 'vault.console_passkeys' },
      { ...none, table: 'vault.finance_tokens' },
      { ...none, table: 'vault.customers', checked: 2 },
      { ...none, table: 'vault.whitelist' },
      { ...none, table: 'vault.console_sessions' },
      { ...none, table: 'vault.console_links' },
      { ...none, table: 'work.console_address' },
      { ...none, table: 'vault.deposit_pages' },
      { ...none, table: 'vault.customers (chats)' },
      { ...none, table: 'vault.exit_credentials' },
      { ...none, table: 'vault.stock_credentials' },
    ])
    const first = (table: string, id: string) => `(select min(${id}) from ${table})`
    const swapped = (table: string, id: string, column: string) =>
      `update ${table} set ${column} = (select ${column} from ${table} where ${id} <> ${first(table, id)} order by ${id} desc limit 1)
        where ${id} = ${first(table, id)}`
    const customers = 'vault.customers'
    const changes: readonly (readonly [table: string, change: string, says: RegExp])[] = [
      [
        'vault.webhook_values',
        swapped('vault.webhook_values', 'value_id', 'sealed'),
        /^vault: event .*EndpointRegistered.*another URL/,
      ],
      [
        'vault.webhook_values',
        `update vault.webhook_values set endpoint_id = 'whs_me' where value_id = ${first('vault.webhook_values', 'value_id')}`,
        /^vault: event .*EndpointRegistered/,
      ],
      [
        'vault.webhook_values',
        `update vault.webhook_values set sealed = sealed || '\\x00'::bytea where value_id = (select max(value_id) from vault.webhook_values)`,
        /^vault: event .*SecretRotated.*another URL, secret/,
      ],
      [
        'vault.reseller_credentials',
        swapped('vault.reseller_credentials', 'reference', 'sealed'),
        /^vault: event .*GatewaySet.*other credentials/,
      ],
      [
        'vault.reseller_credentials',
        `update vault.reseller_credentials set reseller_id = 'acc_me' where reference = ${first('vault.reseller_credentials', 'reference')}`,
        /^vault: event .*GatewaySet/,
      ],
      [
        'vault.reseller_credentials',
        `update vault.reseller_credentials set purpose = 'bot' where reference = ${first('vault.reseller_credentials', 'reference')}`,
        /^vault: event .*GatewaySet.*purpose or provider/,
      ],
      [
        'vault.reseller_credentials',
        `update vault.reseller_credentials set provider = 'telegram' where reference = ${first('vault.reseller_credentials', 'reference')}`,
        /^vault: event .*GatewaySet.*purpose or provider/,
      ],
      [
        customers,
        `update ${customers} set ref = 'me' where customer_id = ${first(customers, 'customer_id')}`,
        /^vault: vault.customers holds another reference/,
      ],
      [
        customers,
        `update ${customers} set account_id = 'acc_me' where customer_id = ${first(customers, 'customer_id')}`,
        /^vault: vault.customers holds another/,
      ],
    ]
    for (const [table, change, says] of changes) {
      const said = await mutated(world, table, change, [], customerIdOf)
      assert.equal(said.length, 1, `${change}: ${said.join('; ')}`)
      assert.match(said[0]!, says, change)
      await world.pool.query('drop table public.saved')
    }
    // An erased row is not a finding, and its data is not printed.
    await world.pool.query(`update ${customers} set ref = null; delete from vault.webhook_values`)
    const erased = await verified(world, customerIdOf)
    assert.deepEqual(erased.findings.map(findingText), [])
    assert.deepEqual(
      erased.vault.map(({ erased: gone }) => gone),
      [0, 6, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    )
  })
})

describe('whitelists of plans', () => {
  const table = 'vault.whitelist'

  test('report a row without its event, and a removed row that was restored', async (t) => {
    const world = await serviceWorld(t)
    const { pool } = world
    const plan = { accountId: 'acc_one' as AccountId, planId: 'pln_one' as PlanId }
    const whitelist = whitelistOf(world)
    const entries = ['203.0.113.7/32', '198.51.100.7/32'].map((cidr) => ({
      cidr,
      label: 'office',
      targeting: { ...anyTargeting, country: 'de' },
    }))
    const added = await whitelist.add(plan, entries, false, cause)
    assert.ok(added.outcome === 'added')
    const summary = async () => (await verified(world)).vault.find((each) => each.table === table)
    assert.deepEqual(await summary(), { table, checked: 2, adopted: 0, uncommitted: 0, erased: 0 })

    const edits = [
      `plan_id = 'pln_other'`,
      `account_id = 'acc_other'`,
      `entry_id = 'wle_other'`,
      `network = '192.0.2.9/32'`,
      'targeting = null',
      `targeting = jsonb_set(targeting, '{country}', '"us"')`,
      `salt = sha256('x')`,
    ]
    const one = `(select min(entry_id) from ${table})`
    for (const change of edits) {
      const said = await mutated(world, table, `update ${table} set ${change} where entry_id = ${one}`)
      assert.equal(said.length, 1, `${change}: ${said.join('; ')}`)
      assert.match(said[0]!, /^vault: vault.whitelist holds wle_.* do not allow it so, or no longer$/, change)
      await pool.query('drop table public.saved')
    }
    // A label gives no rights, and neither does the time of the last use.
    const harmless = `update ${table} set label = 'home', last_used_at = now()`
    assert.deepEqual(await mutated(world, table, harmless), [])

    const [{ id }] = added.entries as readonly [WhitelistEntry]
    await pool.query(`drop table public.saved; create table public.removed as select * from ${table}`)
    await whitelist.remove(plan, id, cause)
    assert.deepEqual((await verified(world)).findings.map(findingText), [])
    await pool.query(`insert into ${table} select * from public.removed where entry_id = $1`, [id])
    const back = (await verified(world)).findings.map(findingText)
    assert.equal(back.length, 1, back.join('; '))
    assert.match(back[0]!, new RegExp(`^vault: ${table} holds ${id}, by which an address uses pln_one`))

    // An event without its row gives no access, nor does an uncommitted row of an older release.
    await pool.query(`delete from ${table}`)
    await pool.query(`insert into ${table} (entry_id, account_id, plan_id, network, label, created_at)
      values ('wle_old', 'acc_one', 'pln_one', '192.0.2.1/32', '', now())`)
    assert.deepEqual((await verified(world)).findings.map(findingText), [])
    assert.deepEqual(await summary(), { table, checked: 0, adopted: 0, uncommitted: 1, erased: 1 })
  })
})

describe('signed rows of the vault', () => {
  test('report a changed chat; an unsigned one is not covered', async (t) => {
    const world = await serviceWorld(t)
    const { pool } = world
    const accountId = 'acc_one' as AccountId
    const customers = createCustomers({ pool, master })
    const chats = createChatSigner(master)
    for (const [ref, chatId] of [
      ['alice', '100200'],
      ['bob', '100201'],
    ] as const)
      await changeCustomer(pool, chats, accountId, await customers.ensure(accountId, ref), { chatId })
    // A row of an older release, or one inserted with SQL, gives no access.
    await pool.query(
      `insert into vault.customers (customer_id, account_id, chat_id) values ('cus_old', 'acc_one', '5')`,
    )
    const clean = await verified(world)
    assert.deepEqual(clean.findings.map(findingText), [])
    assert.deepEqual(
      clean.vault.find(({ table }) => table === 'vault.customers (chats)'),
      { table: 'vault.customers (chats)', checked: 2, adopted: 0, uncommitted: 1, erased: 0 },
    )
    const table = 'vault.customers'
    for (const change of [`chat_id = '666'`, `account_id = 'acc_other'`, `customer_id = 'cus_other'`]) {
      const one = `(select min(customer_id) from ${table} where chat_signature is not null)`
      const said = await mutated(world, table, `update ${table} set ${change} where customer_id = ${one}`)
      assert.equal(said.length, 1, `${change}: ${said.join('; ')}`)
      assert.match(said[0]!, /^vault: vault.customers.* than the service has written/, change)
      await pool.query('drop table public.saved')
    }
  })

  test('report a moved or forged supplier login, and other logins still work', async (t) => {
    const world = await serviceWorld(t)
    const { pool } = world
    const exits = createExitLogins({ pool, vault: createVault(master) })
    const login = { username: 'farebox', password: 'secret' }
    const place = 'http proxy.example:8080'
    const [unchanged, moved] = await exits.store(['one', 'two'].map((owner) => ({ owner, place, login })))
    const stocked = {
      productId: 'isp-static',
      country: 'USA',
      addresses: ['203.0.113.7', '203.0.113.8'].map((ip) => ({
        ip,
        carrierId: null,
        service: null,
        city: null,
        asn: null,
        asnOrg: null,
        endpoint: { protocol: 'http', host: 'proxy.example', port: 8080, udp: false, login } as const,
      })),
    }
    await createStockLogins({ pool, master }).store(stocked)
    assert.deepEqual((await verified(world)).findings.map(findingText), [])
    for (const table of ['vault.exit_credentials', 'vault.stock_credentials']) {
      const said = await mutated(
        world,
        table,
        `update ${table} set sealed = (select sealed from ${table} order by credential_id limit 1)
          where credential_id = (select max(credential_id) from ${table})`,
      )
      assert.deepEqual(said.length, 1, said.join('; '))
      assert.match(
        said[0]!,
        new RegExp(`^vault: ${table} holds another login .* than the service has written`),
      )
      await pool.query('drop table public.saved')
    }
    await pool.query(`update vault.exit_credentials set sealed = 'x' where credential_id = $1`, [moved])
    const refs = [unchanged!, moved!].map((credentialId) => ({ credentialId, place }))
    assert.deepEqual([...(await exits.read(refs)).keys()], [unchanged])
  })
})
