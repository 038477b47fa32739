import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adoptCommitments } from '../../src/app/adopt-commitments.ts'
import { allMigrations } from '../../src/app/migrations.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { accountRef } from '../../src/domain/accounts/fold.ts'
import { adoptionRef } from '../../src/domain/seals/adoption.ts'
import { apiKeyForm, apiKeyKind } from '../../src/features/accounts/api-key.ts'
import { createDirectory } from '../../src/features/accounts/authenticate.ts'
import { storeKey } from '../../src/features/accounts/key-store.ts'
import { createDepositPages } from '../../src/features/deposits/deposit-urls.ts'
import { depositRef } from '../../src/features/deposits/settle-deposit.ts'
import {
  createIsAllowed,
  type EntryRow,
  entryColumns,
} from '../../src/features/lines/whitelist-commitments.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import { type AccountId, type DepositId, type KeyId, newId } from '../../src/kernel/ids.ts'
import { accountStream, adoptionStream, depositStream } from '../../src/kernel/streams.ts'
import { createKysely } from '../../src/platform/postgres/kysely.ts'
import { migrate } from '../../src/platform/postgres/migrate.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { createRowSigner } from '../../src/platform/vault/seal.ts'
import { testKey } from '../audit/world.ts'
import { cause, serviceWorld } from '../features/accounts/world.ts'
import { atEnd } from '../support/cleanup.ts'
import { emptyDatabase } from '../support/postgres.ts'

test('an upgrade adopts the unsigned rows of an older release once; they work, and later rows are not adopted', async (t) => {
  const { pool, log, runner, logger, accounts } = await serviceWorld(t)
  const keys = { master: masterKey(Buffer.alloc(32, 7)) }
  const accountId = newId<AccountId>('acc')
  const old = async (): Promise<{
    readonly keyId: KeyId
    readonly key: ReturnType<typeof apiKeyForm.generate>
  }> => {
    const keyId = newId<KeyId>('key', accountId)
    const key = apiKeyForm.generate()
    await storeKey(pool, apiKeyKind, { hash: apiKeyForm.hash(key), id: keyId, owner: accountId })
    return { keyId, key }
  }
  const [early, late] = [await old(), await old()]
  const issued = ({ keyId }: { readonly keyId: KeyId }) => ({
    type: 'KeyIssued',
    data: { keyId, scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_olds' },
  })
  const created = { type: 'AccountCreated', data: { accountId, reseller: false } }
  await runner.run({
    ...cause,
    name: 'older-release',
    streams: { account: accountRef(accountId) },
    decide: () => ({
      appends: [{ stream: accountStream(accountId), events: [created, issued(early), issued(late)] }],
      answer: null,
    }),
  })
  await pool.query(
    `insert into vault.accounts (account_id, email, salt) values ($1, 'old@example.com', sha256('salt'))`,
    [accountId],
  )
  const left = (what: string, id: string) =>
    pool.query('insert into vault.uncommitted values ($1, $2)', [what, id])
  const deposit = { depositId: newId<DepositId>('dep', accountId), accountId, customerId: null }
  const details = {
    rail: 'card',
    amountCents: 1000,
    gatewayId: 'stripe',
    provider: 'stripe',
    merchantName: 'Shop',
  }
  const opened = { ...deposit, ...details, fingerprint: 'f', pending: null, openedAt: isoTime(Date.now()) }
  await runner.run({
    ...cause,
    name: 'older-release',
    streams: depositRef(deposit.depositId),
    decide: () => ({
      appends: [
        { stream: depositStream(deposit.depositId), events: [{ type: 'DepositOpened', data: opened }] },
      ],
      answer: null,
    }),
  })
  const leave = (depositId: string) =>
    pool.query(
      `insert into vault.deposit_pages (deposit_id, return_url, pay_url) values ($1, 'https://back.example', 'https://pay.example')`,
      [depositId],
    )
  for (const id of [deposit.depositId, 'dep_never_opened']) await leave(id)
  const pageOf = async () =>
    (await createDepositPages({ pool, db: createKysely(pool), keys, logger }).read(deposit))?.payUrl
  await left('account', accountId)
  await left('api-key', early.keyId)

  const watch = { version: () => null, onChange: () => () => undefined }
  const works = async (key: string): Promise<boolean> => {
    const aside = { clock: Date.now, clockProblem: () => null, onUse: () => undefined }
    return (await createDirectory({ pool, log, logger, watch, ...aside }).byKey(key, '203.0.113.7')) !== null
  }
  assert.equal(await works(early.key), false, 'nothing commits to it')
  await adoptCommitments({ pool, keys, runner, logger })
  assert.equal(await works(early.key), true)
  assert.equal(await pageOf(), 'https://pay.example')
  assert.equal((await accounts.byEmail('OLD@example.com', cause))?.accountId, accountId)

  // SQL names another key as one to adopt: the adoption has ended.
  await left('api-key', late.keyId)
  await pool.query('delete from vault.deposit_pages')
  await leave(deposit.depositId)
  const before = await log.head()
  await adoptCommitments({ pool, keys, runner, logger })
  assert.equal(await log.head(), before)
  assert.equal(await works(late.key), false)
  assert.equal(await pageOf(), undefined)

  const verified = async () => {
    const { findings, vault } = await verifyLog(
      { pool, log, groups: [], logInPostgres: true },
      { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
    )
    return { vault, texts: findings.map(findingText) }
  }
  const { vault, texts } = await verified()
  assert.deepEqual(texts, [])
  assert.deepEqual(vault[0], {
    table: 'vault.api_keys',
    checked: 1,
    adopted: 1,
    uncommitted: 1,
    erased: 0,
  })
  assert.notEqual(await log.lastOf(adoptionStream), null)

  // Verification finds a later adoption event by any author.
  await runner.run({
    ...cause,
    name: 'forged-adoption',
    streams: { account: accountRef(accountId) },
    decide: () => ({
      appends: [
        {
          stream: accountStream(accountId),
          events: [
            { type: 'AccountCommitmentsAdopted', data: { accountId, emailCommitment: null, keys: [] } },
          ],
        },
      ],
      answer: null,
    }),
  })
  assert.match((await verified()).texts.join(), /an upgrade adopts before anything else/)
})

test('whitelist entries signed by an earlier version are adopted once, even where everything else was adopted before', async (t) => {
  const { pool, log, runner, logger } = await serviceWorld(t)
  const keys = { master: masterKey(Buffer.alloc(32, 7)) }
  const accountId = newId<AccountId>('acc')
  // That version had adopted keys and e-mails, and signed the rows of whitelists.
  const adopted = { type: 'CommitmentsAdopted', data: { accounts: 0, people: 0, tokens: 0 } } as const
  await runner.run({
    ...cause,
    name: 'version-before',
    streams: { adoption: adoptionRef },
    decide: () => ({ appends: [{ stream: adoptionStream, events: [adopted] }], answer: null }),
  })
  const signer = createRowSigner(keys.master, 'whitelist entry v1')
  const leave = (id: string, network: string, signature: Buffer | null) =>
    pool.query(
      `insert into vault.whitelist (entry_id, account_id, plan_id, network, label, created_at, salt, signature)
       values ($1, $2, 'pln_one', $3, '', now(), sha256('salt'), $4)`,
      [id, accountId, network, signature],
    )
  const signed = (network: string) => signer.sign([accountId, 'pln_one', network, null])
  await leave('wle_signed', '203.0.113.1/32', signed('203.0.113.1/32'))
  await leave('wle_exchanged', '203.0.113.2/32', signed('203.0.113.9/32'))
  await leave('wle_unsigned', '203.0.113.3/32', null)
  const allowed = async (): Promise<readonly string[]> => {
    const { rows } = await pool.query<EntryRow>(
      `select ${entryColumns} from vault.whitelist order by network`,
    )
    const isAllowed = createIsAllowed(log)
    const answers = await Promise.all(rows.map(isAllowed))
    return rows.filter((_, at) => answers[at]).map(({ entry_id }) => entry_id)
  }
  const upgrade = async (): Promise<void> => {
    await pool.query("insert into vault.uncommitted values ('whitelists', '')")
    await adoptCommitments({ pool, keys, runner, logger })
  }
  await upgrade()
  assert.deepEqual(await allowed(), ['wle_signed'])

  // A row that was removed before the upgrade still has its signature. Nothing is adopted a second time.
  await leave('wle_removed', '203.0.113.4/32', signed('203.0.113.4/32'))
  const head = await log.head()
  await upgrade()
  assert.equal(await log.head(), head)
  assert.deepEqual(await allowed(), ['wle_signed'])
  const { findings, vault } = await verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
  )
  assert.deepEqual(
    findings.map((finding) => /vault.whitelist holds (\w+)/.exec(findingText(finding))?.[1]),
    ['wle_exchanged', 'wle_removed', 'wle_unsigned'],
  )
  const table = 'vault.whitelist'
  assert.deepEqual(
    vault.find((each) => each.table === table),
    { table, checked: 1, adopted: 1, uncommitted: 0, erased: 0 },
  )
})

test('the migration requests the adoption of whitelists if there are accounts', async (t) => {
  const pool = createPool({ url: (await emptyDatabase(t)).url, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const before = Object.entries(allMigrations).filter(([name]) => name < '1840')
  await migrate(pool, Object.fromEntries(before))
  await pool.query(
    `insert into vault.accounts (account_id, email, salt) values ('acc_one', 'a@example.com', sha256('salt'))`,
  )
  await pool.query(`insert into vault.whitelist (entry_id, account_id, plan_id, network, label, created_at)
    values ('wle_old', 'acc_one', 'pln_one', '203.0.113.1/32', '', now())`)
  await migrate(pool, allMigrations)
  const { rows } = await pool.query("select what, id from vault.uncommitted where what = 'whitelists'")
  assert.deepEqual(rows, [{ what: 'whitelists', id: '' }])
  const { rows: salts } = await pool.query('select length(salt) as bytes from vault.whitelist')
  assert.deepEqual(salts, [{ bytes: 32 }])
})
