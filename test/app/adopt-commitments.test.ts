import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adoptCommitments } from '../../src/app/adopt-commitments.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { accountRef } from '../../src/domain/accounts/fold.ts'
import { storeKey } from '../../src/features/accounts/account-vault.ts'
import { generateKey, hashKey } from '../../src/features/accounts/api-key.ts'
import { createDirectory } from '../../src/features/accounts/authenticate.ts'
import { createDepositPages } from '../../src/features/deposits/deposit-urls.ts'
import { depositRef } from '../../src/features/deposits/settle-deposit.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import { type AccountId, type DepositId, type KeyId, newId } from '../../src/kernel/ids.ts'
import { accountStream, adoptionStream, depositStream } from '../../src/kernel/streams.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { testKey } from '../audit/world.ts'
import { cause, serviceWorld } from '../features/accounts/world.ts'

test('an upgrade commits once to what an older release left: it works from then on, and nothing is adopted later', async (t) => {
  const { pool, log, runner, logger, accounts } = await serviceWorld(t)
  const keys = { master: masterKey(Buffer.alloc(32, 7)) }
  const accountId = newId<AccountId>('acc')
  const old = async (): Promise<{ readonly keyId: KeyId; readonly key: ReturnType<typeof generateKey> }> => {
    const keyId = newId<KeyId>('key', accountId)
    const key = generateKey()
    await storeKey(pool, { hash: hashKey(key), keyId, accountId })
    return { keyId, key }
  }
  const [kept, late] = [await old(), await old()]
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
      appends: [{ stream: accountStream(accountId), events: [created, issued(kept), issued(late)] }],
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
  const pageOf = async () => (await createDepositPages({ pool, keys, logger }).read(deposit))?.payUrl
  await left('account', accountId)
  await left('api-key', kept.keyId)

  const watch = { version: () => null, onChange: () => () => undefined }
  const works = async (key: string): Promise<boolean> => {
    const aside = { clock: Date.now, clockProblem: () => null, onUse: () => undefined }
    return (await createDirectory({ pool, log, logger, watch, ...aside }).byKey(key, '203.0.113.7')) !== null
  }
  assert.equal(await works(kept.key), false, 'nothing commits to it')
  await adoptCommitments({ pool, keys, runner, logger })
  assert.equal(await works(kept.key), true)
  assert.equal(await pageOf(), 'https://pay.example')
  assert.equal((await accounts.byEmail('OLD@example.com', cause))?.accountId, accountId)

  // Somebody names another key as one to adopt: the adoption is over.
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

  // An adoption that comes after it is found, whoever wrote it.
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
