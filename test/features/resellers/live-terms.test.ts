import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Product } from '../../../src/domain/catalog/product.ts'
import { emptyTerms } from '../../../src/domain/resellers/fold.ts'
import { createLiveTerms } from '../../../src/features/resellers/live-prices.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'

test('decisions use the terms of the log, whatever the read table contains', async () => {
  const reseller = { accountId: 'acc_reseller' as AccountId, reseller: true }
  const product = { id: 'residential-premium' } as Product
  let rows: { resellerId: string; position: number; table: number }[] = []
  let state = { ...emptyTerms, discountBp: 1_000 }
  let revision = 0
  const live = createLiveTerms({
    pool: { query: async () => ({ rows }) } as unknown as pg.Pool,
    termsOf: async () => ({ state, revision }),
    watch: { version: () => 0, onChange: () => () => undefined },
    logger: {} as Logger,
  })
  const discount = async () => {
    await live.refreshTerms(reseller)
    return live.termsOf(reseller, product)?.discountBp
  }

  // Its row was deleted before the start.
  await live.refresh()
  assert.equal(await discount(), 1_000)
  rows = [{ resellerId: reseller.accountId, position: 9, table: 1 }]
  await live.refresh()
  assert.equal(await discount(), 1_000)
  // The row of a change has a lower position, so that no load finds it.
  rows = []
  state = { ...emptyTerms, discountBp: 0 }
  revision = 1
  await live.refresh()
  assert.equal(await discount(), 0)
})
