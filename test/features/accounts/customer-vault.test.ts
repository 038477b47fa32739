import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import {
  changeCustomer,
  createChatSigner,
  createCustomerIds,
  createCustomers,
  findChat,
  findCustomer,
  listCustomers,
} from '../../../src/features/accounts/customers.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { testDatabase } from '../../support/postgres.ts'

const [one, two] = ['acc_one' as AccountId, 'acc_two' as AccountId]

test('an external id always gives the same customer of a reseller, and cannot be derived without the key', () => {
  const master = masterKey(randomBytes(32))
  const idOf = createCustomerIds(master)
  assert.match(idOf(one, 'alice'), /^cus_[0-9a-f]{32}$/)
  assert.equal(createCustomerIds(master)(one, 'alice'), idOf(one, 'alice'))
  assert.notEqual(idOf(two, 'alice'), idOf(one, 'alice'))
  assert.notEqual(idOf(one, 'Alice'), idOf(one, 'alice'))
  assert.notEqual(createCustomerIds(masterKey(randomBytes(32)))(one, 'alice'), idOf(one, 'alice'))
})

test('the first use creates the relation, also from many places at once, and only its reseller sees it', async (t) => {
  const { pool } = await testDatabase(t)
  await migrate(pool, allMigrations)
  const master = masterKey(randomBytes(32))
  const chats = createChatSigner(master)
  const processes = [createCustomers({ pool, master }), createCustomers({ pool, master })]
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => processes[n % 2]!.ensure(one, 'alice')))
  assert.equal(new Set(ids).size, 1)
  const id = ids[0]!
  await processes[0]!.ensure(two, 'alice')
  const mine = await listCustomers(pool, one, { limit: 10, offset: 0 })
  assert.deepEqual([mine.total, mine.customers.map(({ ref }) => ref)], [1, ['alice']])
  assert.equal(await findCustomer(pool, two, id), null)
  assert.equal(await changeCustomer(pool, chats, two, id, { label: 'mine now' }), null)
  const changed = await changeCustomer(pool, chats, one, id, { label: 'Alice', chatId: '-100200' })
  assert.deepEqual([changed?.label, changed?.chatId], ['Alice', '-100200'])
  assert.deepEqual(await findChat(pool, chats, one, id), { chatId: '-100200' })
  await pool.query(`update vault.customers set chat_id = '666' where customer_id = $1`, [id])
  assert.equal(await findChat(pool, chats, one, id), 'forged', 'another one was written with SQL')
  const cleared = await changeCustomer(pool, chats, one, id, { chatId: null })
  assert.deepEqual([cleared?.label, cleared?.chatId], ['Alice', null])
})
