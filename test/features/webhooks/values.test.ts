import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWebhookValues } from '../../../src/features/webhooks/webhook-vault.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { createVault, SealBroken } from '../../../src/platform/vault/seal.ts'

const vault = createVault(masterKey(Buffer.alloc(32, 7)))

test('the URL or secret of a webhook opens for its endpoint only, and one of an older release as before', async () => {
  const queries: { values: readonly [string, readonly string[], readonly Buffer[]] }[] = []
  const pool = { query: async (query: (typeof queries)[number]) => queries.push(query) }
  const values = createWebhookValues({ pool: pool as never, vault })
  const [stored] = await values.store('whs_one', ['https://one.example'])
  const [sealed] = queries[0]!.values[2]
  const { valueId } = stored!
  assert.equal(values.open(valueId, 'whs_one', sealed!), 'https://one.example')
  assert.throws(() => values.open(valueId, 'whs_other', sealed!), SealBroken)
  const former = vault.seal(Buffer.from('https://former.example'), 'webhook value whv_old')
  assert.equal(values.open('whv_old', 'whs_one', former), 'https://former.example')
  assert.throws(() => values.open('whv_other', 'whs_one', former), SealBroken)
})
