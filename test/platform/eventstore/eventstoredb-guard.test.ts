import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openClient } from '../../../src/platform/eventstore/eventstoredb/client.ts'
import { toEventData } from '../../../src/platform/eventstore/eventstoredb/conversions.ts'
import { eventStoreStandIn } from '../../support/eventstore-stand-in.ts'
import { until } from '../../support/until.ts'
import { someEvent } from './contract/events.ts'
import { startHop } from './eventstoredb-hop.ts'

const unavailable = { code: 14, details: 'the leader is gone' }

const world = async (t: TestContext) => {
  const node = await eventStoreStandIn(t)
  const { client, credentials } = openClient(node.url)
  t.after(() => client.dispose())
  const append = () =>
    client.appendToStream('order-1', [toEventData(someEvent())], { credentials, deadline: 20_000 })
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  return { node, client, append, unhandled }
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 50))

test('a call that fails while there is no leader ends only itself', async (t) => {
  const { node, append, unhandled } = await world(t)
  const [first, second] = [append(), append()]
  await until(() => node.appends.length === 2, { what: 'two appends on their way' })
  node.loseLeader()
  node.appends.shift()!(unavailable)
  await assert.rejects(first, /the leader is gone/)
  const before = node.leaderReads()
  const third = append()
  await until(() => node.leaderReads() > before, { what: 'the search for the next leader' })
  // While the third one's channel is searched for in vain, the second one breaks.
  node.appends.shift()!(unavailable)
  await assert.rejects(second, /the leader is gone/)
  await assert.rejects(third, /Failed to discover after 3 attempts/)
  await settled()
  assert.deepEqual(unhandled, [])
})

test('an append at the moment in which its channel closes is answered', async (t) => {
  const { node, client, append, unhandled } = await world(t)
  const first = append()
  await until(() => node.appends.length === 1, { what: 'an append on its way' })
  node.loseLeader()
  const between: Promise<string>[] = []
  const inside = client as unknown as { handleError(...args: unknown[]): Promise<void> }
  const { handleError } = inside
  inside.handleError = (...args) => {
    // It has its channel in hand now, and the channel is closed before it is used.
    if (between.length === 0)
      between.push(
        append().then(
          () => 'appended',
          (error: Error) => error.message,
        ),
      )
    return handleError(...args)
  }
  node.appends.shift()!(unavailable)
  await assert.rejects(first, /the leader is gone/)
  assert.deepEqual(await Promise.all(between), ['Channel closed before call started'])
  await settled()
  assert.deepEqual(unhandled, [])
})

test('a silent node with an open connection is abandoned within seconds', async (t) => {
  const node = await eventStoreStandIn(t)
  const hop = await startHop(t, node.nodeUrl)
  const said: unknown[] = []
  t.mock.method(console, 'warn', (...words: unknown[]) => said.push(words))
  const { client, credentials } = openClient(hop.url)
  t.after(() => client.dispose())
  const waiting = client.appendToStream('order-1', [toEventData(someEvent())], {
    credentials,
    deadline: 60_000,
  })
  await until(() => node.appends.length === 1, { what: 'an append on its way' })
  hop.freeze()
  const frozenMs = performance.now()
  await assert.rejects(waiting, /Connection dropped/)
  // The client's own defaults give it up after 10 to 20 s.
  assert.ok(performance.now() - frozenMs < 9_000)
  assert.deepEqual(said, [])
})
