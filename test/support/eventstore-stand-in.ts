import { createRequire } from 'node:module'
import type { TestContext } from 'node:test'

// The client's own modules: gRPC and the messages of the protocol. They have no types here.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Untyped = any
const ofTest = createRequire(import.meta.url)
const ofClient = createRequire(ofTest.resolve('@eventstore/db-client'))
const grpc: Untyped = ofClient('@grpc/grpc-js')
const { GossipService }: Untyped = ofClient('../generated/gossip_grpc_pb.js')
const { ClusterInfo, EndPoint, MemberInfo }: Untyped = ofClient('../generated/gossip_pb.js')
const { ReadResp }: Untyped = ofClient('../generated/streams_pb.js')
const { StreamsService }: Untyped = ofClient('../generated/streams_grpc_pb.js')
const { StreamIdentifier, UUID }: Untyped = ofClient('../generated/shared_pb.js')

export type EventStoreStandIn = {
  /** Two seeds, so that the client searches the leader. */
  readonly url: string
  /** The same node alone. */
  readonly nodeUrl: string
  /** Appends that wait for the test to answer them with an error of gRPC, oldest first. */
  readonly appends: ((error: object) => void)[]
  /** How often the leader was read. */
  leaderReads(): number
  /** From now on no node leads, and none is named. */
  loseLeader(): void
}

const uuid = (text: string): Untyped => {
  const id = new UUID()
  id.setString(text)
  return id
}

/** The event that every log begins with. */
const logCreated = (): Untyped => {
  const stream = new StreamIdentifier()
  stream.setStreamName(Buffer.from('farebox-log'))
  const recorded = new ReadResp.ReadEvent.RecordedEvent()
  recorded.setId(uuid('00000000-0000-4000-8000-000000000001'))
  recorded.setStreamIdentifier(stream)
  recorded.setStreamRevision('0')
  recorded.setPreparePosition('7')
  recorded.setCommitPosition('7')
  recorded.getMetadataMap().set('type', 'LogCreated')
  recorded.getMetadataMap().set('content-type', 'application/octet-stream')
  recorded.getMetadataMap().set('created', '0')
  recorded.setData(Buffer.from('{"logId":"the log of the stand-in"}'))
  recorded.setCustomMetadata(Buffer.from('\ufeff{}'))
  const event = new ReadResp.ReadEvent()
  event.setEvent(recorded)
  const answer = new ReadResp()
  answer.setEvent(event)
  return answer
}

/**
 * Implements as much of the protocol of EventStoreDB as tests of the client's failures need: it reports
 * itself as leader, knows the log's id, does not answer any other read, and answers appends on the test's
 * command.
 */
export const eventStoreStandIn = async (t: TestContext): Promise<EventStoreStandIn> => {
  const appends: ((error: object) => void)[] = []
  let elected = true
  let reads = 0
  const server = new grpc.Server()
  const port: number = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error: Error, bound: number) =>
      error ? reject(error) : resolve(bound),
    ),
  )
  const cluster = (): Untyped => {
    const info = new ClusterInfo()
    if (!elected) return info
    const endPoint = new EndPoint()
    endPoint.setAddress('127.0.0.1')
    endPoint.setPort(port)
    const member = new MemberInfo()
    member.setInstanceId(uuid('00000000-0000-4000-8000-000000000000'))
    member.setIsAlive(true)
    member.setState(MemberInfo.VNodeState.LEADER)
    member.setHttpEndPoint(endPoint)
    info.addMembers(member)
    return info
  }
  server.addService(GossipService, {
    read: (_call: unknown, answer: (error: null, info: object) => void) => {
      reads += 1
      answer(null, cluster())
    },
  })
  server.addService(StreamsService, {
    append: (call: Untyped, answer: (error: object) => void) => {
      call.on('data', () => undefined)
      call.on('end', () => appends.push(answer))
    },
    read: (call: Untyped) => {
      const options = call.request.getOptions()
      const name = options.hasStream()
        ? Buffer.from(options.getStream().getStreamIdentifier().getStreamName_asU8()).toString()
        : '$all'
      if (name !== 'farebox-log') return call.emit('error', { code: 14, details: 'Server Is Not Ready' })
      call.write(logCreated())
      return call.end()
    },
  })
  t.after(() => server.forceShutdown())
  return {
    url: `esdb://127.0.0.1:${port},127.0.0.1:1?tls=false&maxDiscoverAttempts=3&discoveryInterval=200`,
    nodeUrl: `esdb://127.0.0.1:${port}?tls=false`,
    appends,
    leaderReads: () => reads,
    loseLeader: () => {
      elected = false
    },
  }
}
