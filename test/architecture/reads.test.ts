import assert from 'node:assert/strict'
import { test } from 'node:test'
import { files, textOf } from './sources.ts'

/** SQL that reads the tables of the read models, with the reason why it is not a query of Kysely. */
const rawReads: Readonly<Record<string, readonly string[]>> = {
  'part of a Kysely query': [
    'features/finance/book-accounts',
    'features/finance/explain',
    'features/finance/journal',
  ],
  'a work list, which the worker continues by its own conditions': [
    'features/deposits/auto-topup',
    'features/deposits/refund-deposit',
    'features/orders/complete-orders',
    'features/orders/place-paid-orders',
    'features/scrapers/call-commands',
    'features/stock/expire-rentals',
    'features/subscriptions/renewal-worker',
    'features/wallet/wallet-service',
  ],
  'shared by the statements that enqueue, lease and send webhooks': [
    'features/webhooks/cancel-deliveries',
    'features/webhooks/delivery-queue',
    'features/webhooks/enqueue',
    'features/webhooks/fan-out',
    'features/webhooks/metrics',
    'features/webhooks/start-webhooks',
  ],
  'writes the rows that it selects': [
    'features/deposits/disputes',
    'features/deposits/poll-schedule',
    'features/resellers/message-queue',
  ],
  'a process of the gateway, which does not load Kysely': [
    'features/exits/live-exits',
    'gateway/authenticate/plan-directory',
    'gateway/authenticate/rentals',
    'gateway/rental-listeners',
  ],
  'compares keys of several columns, or reads many tables in one snapshot or a temporary table': [
    'audit/violations',
    'features/accounts/account-vault',
    'features/catalog/import-catalog',
    'features/reconciliation/compare',
    'features/resellers/live-prices',
    'features/resellers/reseller-statement',
    'features/stock/stock-counts',
  ],
}

test('read models are read with Kysely, except where the list gives a reason', () => {
  const withSql = files.filter(
    (file) =>
      file.startsWith('src/') &&
      !file.endsWith('migrations.ts') &&
      /^(?!\s*(?:\*|\/)).*\b(?:from|join) read\.[a-z]/m.test(textOf(file)),
  )
  const listed = Object.values(rawReads)
    .flat()
    .map((file) => `src/${file}.ts`)
  assert.deepEqual(withSql.sort(), listed.sort())
})
