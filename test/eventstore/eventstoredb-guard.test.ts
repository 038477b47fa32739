import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { type TestContext, test } from 'node:test'
import { openClient } from '../../src/eventstore/eventstoredb/client.ts'
import { toEventData } from '../../src/eventstore/eventstoredb/wire.ts'
import { until } from '../support/until.ts'
import { someEvent } from './contract/events.ts'

// What the client itself is made of: gRPC and the messages of the protocol. They have no types here.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Untyped = any
const ofTest = createRequire(import.meta.url)
const ofClient = createRequire(ofTest.resolve('@eventstore/db-client'))
const grpc: Untyped = ofClient('@grpc/grpc-js')
const { GossipService }: Untyped = ofClient('../generated/gossip_grpc_pb.js')
const { ClusterInfo, EndPoint, MemberInfo }: Untyped = ofClient('../generated/gossip_pb.js')
const { StreamsService }: Untyped = ofClient('../generated/streams_grpc_pb.js')
const { UUID }: Untyped = ofClient('../generated/shared_pb.js')

/** Speaks as much of the protocol as an append needs, and answers when the test says so. */
const standIn = async (t: TestContext) => {
  const appends: ((error: object) => void)[] = []
  let elected = true
  let asked = 0
  const server = new grpc.Server()
  const port: number = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error: Error, bound: number) =>
      error ? reject(error) : resolve(bound),
    ),
  )
  const cluster = () => {
    const info = new ClusterInfo()
    if (!elected) return info
    const member = new MemberInfo()
    const endPoint = new EndPoint()
    endPoint.setAddress('127.0.0.1')
    endPoint.setPort(port)
    const id = new UUID()
    id.setString('00000000-0000-4000-8000-000000000000')
    member.setInstanceId(id)
    member.setIsAlive(true)
    member.setState(MemberInfo.VNodeState.LEADER)
    member.setHttpEndPoint(endPoint)
    info.addMembers(member)
    return info
  }
  server.addService(GossipService, {
    read: (_call: unknown, answer: (error: null, info: object) => void) => {
      asked += 1
      answer(null, cluster())
    },
  })
  server.addService(StreamsService, {
    append: (call: Untyped, answer: (error: object) => void) => {
      call.on('data', () => undefined)
      call.on('end', () => appends.push(answer))
    },
  })
  t.after(() => server.forceShutdown())
  return {
    /** Two seeds, so that the client looks for the leader. */
    url: `esdb://127.0.0.1:${port},127.0.0.1:1?tls=false&maxDiscoverAttempts=3&discoveryInterval=200`,
    /** Appends that wait for an answer, oldest first. */
    appends,
    timesAsked: () => asked,
    loseLeader: () => {
      elected = false
    },
  }
}

const unavailable = { code: 14, details: 'the leader is gone' }

const world = async (t: TestContext) => {
  const node = await standIn(t)
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

test('a call that breaks while no leader is found ends nothing but itself', async (t) => {
  const { node, append, unhandled } = await world(t)
  const [first, second] = [append(), append()]
  await until(() => node.appends.length === 2, { what: 'two appends on their way' })
  node.loseLeader()
  node.appends.shift()!(unavailable)
  await assert.rejects(first, /the leader is gone/)
  const asked = node.timesAsked()
  const third = append()
  await until(() => node.timesAsked() > asked, { what: 'the search for the next leader' })
  // While the third one's channel is searched for in vain, the second one breaks.
  node.appends.shift()!(unavailable)
  await assert.rejects(second, /the leader is gone/)
  await assert.rejects(third, /Failed to discover after 3 attempts/)
  await settled()
  assert.deepEqual(unhandled, [])
})

test('an append that comes in the moment in which its channel is closed is answered', async (t) => {
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
