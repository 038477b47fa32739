import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'
import { ownPort } from './own-port.ts'
import { until } from './until.ts'

/**
 * How a real EventStoreDB 24.x is started, without its options, e.g. `eventstored` or
 * `dotnet /opt/eventstore/EventStore.ClusterNode.dll`. A server holds one log, so tests of a whole service start one each.
 */
const command = process.env.FAREBOX_TEST_EVENTSTORE_SERVER

export const skipWithoutEventStore = command ? false : 'FAREBOX_TEST_EVENTSTORE_SERVER is not set'

export type EventStoreServer = {
  /** For EVENTSTORE_URL. */
  readonly url: string
  /** Where its files lie: `db` of the server. */
  readonly dataDir: string
  /** SIGTERM, and waits for the end. */
  stop(): Promise<void>
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>
}

const isReady = async (port: number): Promise<boolean> => {
  const answer = await fetch(`http://127.0.0.1:${port}/health/live`).catch(() => null)
  return answer?.status === 204
}

/** A directory for a server's files that is gone with the test. */
export const eventStoreDirectory = async (t: TestContext): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-eventstore-'))
  atEnd(t, () => rm(directory, { recursive: true, force: true }))
  return directory
}

type Node = { readonly directory: string; readonly port: number; readonly replicationPort: number }

const newNode = async (directory: string): Promise<Node> => ({
  directory,
  port: await ownPort(),
  replicationPort: await ownPort(),
})

const dataOf = ({ directory }: Node): string => join(directory, 'db')

/** A node's process, without users and TLS; killed with the test. */
const launch = (t: TestContext, node: Node, more: Readonly<Record<string, string>> = {}) => {
  assert(command, String(skipWithoutEventStore))
  const options = {
    db: dataOf(node),
    log: join(node.directory, 'logs'),
    'node-ip': '127.0.0.1',
    'node-port': String(node.port),
    'replication-ip': '127.0.0.1',
    'replication-port': String(node.replicationPort),
    ...more,
  }
  const [program = '', ...first] = command.split(' ')
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
  const child = spawn(program, [...first, '--insecure', '--disable-log-file', ...args], {
    stdio: 'ignore',
    // The server reads every EVENTSTORE_… as an option, and does not start with an unknown one.
    env: { ...process.env, EVENTSTORE_URL: undefined, EVENTSTORE_TELEMETRY_OPTOUT: 'true' },
  })
  const ended = once(child, 'close')
  const end = (signal: NodeJS.Signals) => async () => {
    child.kill(signal)
    await ended
  }
  atEnd(t, end('SIGKILL'))
  return { child, end }
}

/**
 * One node on the loopback, without users and TLS, over these files or over new ones; killed with the test.
 */
export const startEventStore = async (t: TestContext, dataDir?: string): Promise<EventStoreServer> => {
  const node = await newNode(dataDir ?? (await eventStoreDirectory(t)))
  const { child, end } = launch(t, node)
  await until(() => child.exitCode !== null || isReady(node.port), {
    timeoutMs: 120_000,
    what: 'the start of EventStoreDB',
  })
  // The first start over restored files cuts the log at `truncate.chk` and ends; the second one serves.
  if (child.exitCode === 0) return await startEventStore(t, node.directory)
  assert.equal(child.exitCode, null, 'EventStoreDB ended at its start')
  return {
    url: `esdb://127.0.0.1:${node.port}?tls=false`,
    dataDir: dataOf(node),
    stop: end('SIGTERM'),
    kill: end('SIGKILL'),
  }
}

export type EventStoreNode = {
  readonly port: number
  /** Where its files lie: `db` of the server. */
  readonly dataDir: string
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>
  /** SIGSTOP: it keeps its connections and sends nothing more. */
  freeze(): void
  resume(): void
  /** Starts it over its files, after its end, and returns at once. */
  start(): void
}

export type EventStoreCluster = {
  /** For EVENTSTORE_URL: all nodes. */
  readonly url: string
  readonly nodes: readonly EventStoreNode[]
  /** The node that leads by the word of a majority, and that serves; waits for one. */
  leader(): Promise<EventStoreNode>
  /** How many nodes lead or follow by the word of the leader. */
  members(): Promise<number>
  /** The exit codes of nodes that ended by themselves, and were started again. */
  readonly selfEnded: readonly number[]
}

type Member = { readonly state: string; readonly isAlive: boolean; readonly httpEndPointPort: number }

const membersSeenBy = async (port: number): Promise<readonly Member[]> => {
  const answer = await fetch(`http://127.0.0.1:${port}/gossip?format=json`, {
    signal: AbortSignal.timeout(1_000),
  }).catch(() => null)
  return answer?.ok ? ((await answer.json()) as { members: Member[] }).members : []
}

/**
 * Three nodes on the loopback, without users and TLS, over these files or over new ones; killed with the
 * test.
 */
export const startEventStoreCluster = async (
  t: TestContext,
  directories?: readonly string[],
): Promise<EventStoreCluster> => {
  const places = directories ?? (await Promise.all(Array.from({ length: 3 }, () => eventStoreDirectory(t))))
  const all = await Promise.all(places.map(newNode))
  const selfEnded: number[] = []
  const nodes = all.map((node): EventStoreNode => {
    const seeds = all.filter((other) => other !== node).map(({ port }) => `127.0.0.1:${port}`)
    const options = { 'cluster-size': '3', 'discover-via-dns': 'false', 'gossip-seed': seeds.join(',') }
    const start = (): ReturnType<typeof launch> => {
      const started = launch(t, node, options)
      // A node cuts its log when it is started over restored files, and when it has what the others never took; then it ends
      // by itself and is to be started again, as a restart policy does.
      started.child.once('close', (code) => {
        if (code === null) return
        selfEnded.push(code)
        running = start()
      })
      return started
    }
    let running = start()
    return {
      port: node.port,
      dataDir: dataOf(node),
      kill: () => running.end('SIGKILL')(),
      freeze: () => void running.child.kill('SIGSTOP'),
      resume: () => void running.child.kill('SIGCONT'),
      start: () => {
        running = start()
      },
    }
  })
  const findLeader = async (): Promise<EventStoreNode | null> => {
    const views = await Promise.all(nodes.map(({ port }) => membersSeenBy(port)))
    for (const node of nodes) {
      const votes = views.filter((members) =>
        members.some(
          ({ state, isAlive, httpEndPointPort }) =>
            state === 'Leader' && isAlive && httpEndPointPort === node.port,
        ),
      )
      if (votes.length >= 2 && (await isReady(node.port))) return node
    }
    return null
  }
  const leader = () => until(findLeader, { timeoutMs: 120_000, everyMs: 100, what: 'a leader' })
  const members = async (): Promise<number> => {
    const node = await findLeader()
    if (node === null) return 0
    const seen = await membersSeenBy(node.port)
    return seen.filter(({ state, isAlive }) => isAlive && (state === 'Leader' || state === 'Follower')).length
  }
  await leader()
  return {
    url: `esdb://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}?tls=false`,
    nodes,
    leader,
    members,
    selfEnded,
  }
}
