import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { findChat } from '../../src/features/accounts/customers.ts'
import { createChatSigner } from '../../src/features/accounts/index.ts'
import { createIsAllowed } from '../../src/features/lines/whitelist-commitments.ts'
import { type BatchItem, createBatchItems } from '../../src/features/scrapers/batch-items.ts'
import { createWhitelistLookup } from '../../src/gateway/authenticate/whitelist-lookup.ts'
import type { AccountId, ScrapeBatchId } from '../../src/kernel/ids.ts'
import { createReads } from '../../src/platform/eventstore/postgres/reads.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { atEnd } from '../support/cleanup.ts'
import { demoEnv } from '../support/demo-env.ts'
import { dataDirectory, farebox, startFarebox } from '../support/farebox.ts'
import { hasCommit, oldVersion } from '../support/old-version.ts'
import { emptyDatabase } from '../support/postgres.ts'

/** The last version that signed neither whitelists nor chats. */
const commit = 'd9393f12'
const skip = (await hasCommit(commit)) ? false : `this clone has no commit ${commit}: fetch the whole history`

const write = (account: string, network: string, customer: string) => [
  `insert into vault.whitelist (entry_id, account_id, plan_id, network, label, created_at)
   values ('wle_${customer}', '${account}', 'pln_old', '${network}', '', now())`,
  `insert into vault.customers (customer_id, account_id, chat_id) values ('${customer}', '${account}', '100200')`,
]

const batchOf = (account: string) => [
  `insert into work.scrape_batches (batch_id, account_id, key_id, request_id, platform, operation, fingerprint, inputs, created_at)
   values ('scb_before', '${account}', 'key_none', 'before', 'reddit', 'subreddit', '', 1, now())`,
  `insert into work.scrape_batch_items (batch_id, n, account_id, input, due_at)
   values ('scb_before', '1', '${account}', '{"name":"a"}', now() + interval '1 day')`,
]

const openAs = (t: TestContext, url: string) => {
  const pool = createPool({ url, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  return pool
}

test('whitelists and chats of an older version work after the first start of this one, and later unsigned rows do not', {
  skip,
}, async (t) => {
  const { url } = await emptyDatabase(t)
  const env = demoEnv(url, await dataDirectory(t))
  const old = await startFarebox(t, env, [], { from: await oldVersion(t, commit) })
  const { accountId } = (await readDemoFile(env.FAREBOX_DATA))!.reseller
  const pool = createPool({ url, applicationName: 'farebox-test' })
  try {
    for (const sql of [...write(accountId, '203.0.113.7/32', 'cus_before'), ...batchOf(accountId)])
      await pool.query(sql)
  } finally {
    await old.stop()
    await pool.end()
  }
  // A command migrates nothing.
  const refused = await farebox(t, ['accounts', 'list'], env)
  assert.equal(refused.code, 1, refused.out)
  assert.match(refused.err, /Start the service of this version first/)

  const startOnce = async () => (await startFarebox(t, env)).stop()
  await startOnce()
  const now = openAs(t, url)
  const keys = { master: masterKey(Buffer.from(env.FAREBOX_MASTER_KEY, 'base64')) }
  const lookup = () =>
    createWhitelistLookup({
      pool: now,
      isAllowed: createIsAllowed(createReads(now, { read: () => undefined })),
      clock: Date.now,
      monotonicMs: () => performance.now(),
      logger: { error: () => undefined },
      onError: (error) => assert.fail(String(error)),
    })
  const chatOf = (customer: string) =>
    findChat(now, createChatSigner(keys.master), accountId as AccountId, customer)
  assert.equal((await lookup().find('203.0.113.7'))?.planId, 'pln_old')
  assert.deepEqual(await chatOf('cus_before'), { chatId: '100200' })
  const batches = createBatchItems({ pool: now, clock: Date.now, keys })
  const { rows: calls } = await now.query<BatchItem>('select * from work.scrape_batch_items')
  const batch = await batches.batch('scb_before' as ScrapeBatchId)
  assert.ok(batch !== null && batches.isGenuine(batch, calls[0]))

  // SQL adds rows, and marks something as left by an older version.
  for (const sql of write(accountId, '198.51.100.7/32', 'cus_later')) await now.query(sql)
  await now.query("update vault.whitelist set salt = sha256('later') where entry_id = 'wle_cus_later'")
  await now.query(`insert into vault.uncommitted values ('account', $1), ('whitelists', '')`, [accountId])
  await startOnce()
  assert.equal(await lookup().find('198.51.100.7'), null)
  assert.equal(await chatOf('cus_later'), 'forged')
  const verified = await farebox(t, ['ledger', 'verify'], env)
  const said = verified.out + verified.err
  assert.match(said, /vault\.whitelist: 1 row as committed to \(1 since an upgrade only\), 0 of before/)
  assert.match(said, /vault\.whitelist holds wle_cus_later, .* do not allow it so/)
  assert.match(said, /vault\.customers \(chats\): 1 row as committed to, 1 of before/)
  assert.doesNotMatch(said, /than the service has written/)
})
