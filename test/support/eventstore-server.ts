import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './cleanup.ts'
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

const freePort = async (): Promise<number> => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  assert(address !== null && typeof address === 'object')
  server.close()
  await once(server, 'close')
  return address.port
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

/** One node on the loopback, without users and TLS, over these files or over new ones; killed with the test. */
export const startEventStore = async (t: TestContext, dataDir?: string): Promise<EventStoreServer> => {
  assert(command, String(skipWithoutEventStore))
  const directory = dataDir ?? (await eventStoreDirectory(t))
  const [port, replicationPort] = [await freePort(), await freePort()]
  const options = {
    db: join(directory, 'db'),
    log: join(directory, 'logs'),
    'node-ip': '127.0.0.1',
    'node-port': String(port),
    'replication-ip': '127.0.0.1',
    'replication-port': String(replicationPort),
  }
  const [program = '', ...first] = command.split(' ')
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
  const child = spawn(program, [...first, '--insecure', '--disable-log-file', ...args], {
    stdio: 'ignore',
    // The server takes every EVENTSTORE_… for an option of its own, and does not start with one that it has not.
    env: { ...process.env, EVENTSTORE_URL: undefined, EVENTSTORE_TELEMETRY_OPTOUT: 'true' },
  })
  const ended = once(child, 'close')
  const end = (signal: NodeJS.Signals) => async () => {
    child.kill(signal)
    await ended
  }
  atEnd(t, end('SIGKILL'))
  await until(() => child.exitCode !== null || isReady(port), {
    timeoutMs: 120_000,
    what: 'the start of EventStoreDB',
  })
  // The first start over restored files cuts the log at `truncate.chk` and ends; the second one serves.
  if (child.exitCode === 0) return await startEventStore(t, directory)
  assert.equal(child.exitCode, null, 'EventStoreDB ended at its start')
  return {
    url: `esdb://127.0.0.1:${port}?tls=false`,
    dataDir: options.db,
    stop: end('SIGTERM'),
    kill: end('SIGKILL'),
  }
}
