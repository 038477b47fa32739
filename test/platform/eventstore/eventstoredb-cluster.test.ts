import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipWithoutEventStore } from '../../support/eventstore-server.ts'
import { call, farebox, startFarebox } from '../../support/farebox.ts'
import { until } from '../../support/until.ts'
import { balanceOf, buyers, openOnCluster, place, refusalMs, startLoad } from './cluster-load.ts'

test('a cluster that loses its leader, and its quorum, costs two processes under load no order and no process', {
  skip: skipWithoutEventStore,
}, async (t) => {
  const { cluster, env, first, key } = await openOnCluster(t)
  const processes = [first, await startFarebox(t, env)]
  const startCents = await balanceOf(first, key)
  const load = startLoad(t, processes, key)
  const lines: string[] = []
  const tell = (what: string): void => {
    lines.push(`${what}: ${load.gapMs()} ms without an order`)
  }
  await load.more(30)
  tell('calm')

  const killed = await cluster.leader()
  await killed.kill()
  // A process that starts now meets the election.
  const third = await startFarebox(t, env)
  await load.more(30)
  tell('leader killed')
  assert.equal((await third.stop()).code, 0)
  killed.start()
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })

  const frozen = await cluster.leader()
  frozen.freeze()
  await load.more(30)
  tell('leader frozen')
  frozen.resume()
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })

  // The leader is not stopped: it abandons its running calls gradually, while no other leader is found.
  const alone = await cluster.leader()
  const others = cluster.nodes.filter((node) => node !== alone)
  const refusedBefore = load.refused.length
  await Promise.all(others.map((node) => node.kill()))
  await until(() => load.refused.length >= refusedBefore + 4 * buyers, {
    timeoutMs: 60_000,
    what: 'refusals without a quorum',
  })
  for (const node of others) node.start()
  await load.more(30)
  tell('quorum lost for a while')
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })
  await load.end()
  const worst = Math.round(Math.max(...load.refused))
  t.diagnostic(
    `${load.acknowledged.size} orders acknowledged; ${load.refused.length} refusals within ${worst} ms`,
  )
  for (const line of lines) t.diagnostic(line)
  t.diagnostic(`nodes that ended by themselves to cut their logs: ${cluster.selfEnded.length}`)
  assert.ok(worst < refusalMs, `a refusal took ${worst} ms`)

  const paid = [...load.acknowledged.values()].reduce((sum, { amountCents }) => sum + amountCents, 0)
  await until(async () => startCents - (await balanceOf(first, key)) === paid, {
    what: 'a wallet that lacks what the acknowledged orders cost, each once',
  })
  // The last order may be of the other process: without its position it is in the list of this one a little later.
  const listed = async () => (await call(`${first.baseUrl}/api/v1/orders?limit=1`, key)).body.total
  await until(async () => (await listed()) === load.acknowledged.size, { what: 'a list of all orders' })
  for (const [idempotencyKey, { orderId }] of [...load.acknowledged].slice(0, 40)) {
    const { status, body } = await place(processes[1]!, key, idempotencyKey)
    assert.deepEqual([status, body.orderId], [200, orderId])
  }
  for (const process of processes) assert.equal((await process.stop()).code, 0)
  assert.equal((await farebox(t, ['ledger', 'seal'], env)).code, 0)
  const verified = await farebox(t, ['ledger', 'verify'], env)
  assert.equal(verified.code, 0, verified.out + verified.err)
})
