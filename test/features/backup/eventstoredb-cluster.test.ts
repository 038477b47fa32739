import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openOnCluster, place, startLoad, succeeds } from '../../platform/eventstore/cluster-load.ts'
import {
  eventStoreDirectory,
  skipWithoutEventStore,
  startEventStoreCluster,
} from '../../support/eventstore-server.ts'
import { farebox, startFarebox } from '../../support/farebox.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { scratch } from '../exports/books.ts'
import { backUpLog, putLogBack } from './eventstore-files.ts'

test('the log of a cluster that is copied from one node under load is restored as a cluster that continues', {
  skip: skipWithoutEventStore,
}, async (t) => {
  const { cluster, env, first, key } = await openOnCluster(t)
  const load = startLoad(t, [first], key)
  await load.more(30)
  const before = [...load.acknowledged]
  await succeeds(t, env, 'ledger', 'seal')

  // The log's copy is taken from one node, first; then Postgres.
  const copy = await scratch(t)
  await backUpLog((await cluster.leader()).dataDir, copy)
  const file = join(await scratch(t), 'farebox.backup')
  await succeeds(t, env, 'backup', 'create', '--out', file)
  await load.end()
  assert.equal((await first.stop()).code, 0)
  await Promise.all(cluster.nodes.map((node) => node.kill()))

  const directories = await Promise.all(
    cluster.nodes.map(async () => {
      const directory = await eventStoreDirectory(t)
      await mkdir(join(directory, 'db'))
      await putLogBack(join(directory, 'db'), copy)
      return directory
    }),
  )
  const again = await startEventStoreCluster(t, directories)
  const restored = { ...env, DATABASE_URL: (await emptyDatabase(t)).url, EVENTSTORE_URL: again.url }
  await succeeds(t, restored, 'backup', 'restore', file)
  await succeeds(t, restored, 'projections', 'rebuild', 'all')
  await succeeds(t, restored, 'ledger', 'seal', '--remake-digests')
  const verified = await farebox(t, ['ledger', 'verify'], restored)
  assert.equal(verified.code, 0, verified.out + verified.err)
  const next = await startFarebox(t, restored)
  const [[idempotencyKey, { orderId }] = ['', { orderId: '' }]] = before.slice(-1)
  const repeated = await place(next, key, idempotencyKey)
  assert.deepEqual([repeated.status, repeated.body.orderId], [200, orderId])
  const order = await place(next, key, randomUUID())
  assert.equal(order.status, 201, JSON.stringify(order.body))
  assert.equal((await next.stop()).code, 0)
})
